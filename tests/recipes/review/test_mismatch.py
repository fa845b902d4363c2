"""Engines with planted faults in short runs: training warns or stops at once, and the review names the fault."""

import asyncio
import re
from dataclasses import dataclass

import pytest

from support.episodes.silence import Silence
from turnsmith.config import (
    AgentConfig,
    EngineConfig,
    ModelConfig,
    OptimizerConfig,
    RolloutConfig,
    RunConfig,
    SandboxConfig,
    StageConfig,
    TaskSetConfig,
)
from turnsmith.errors import TrainingError
from turnsmith.recipes import sampler_check
from turnsmith.recipes.recipe import run_recipe
from turnsmith.recipes.review.mismatch import examine_run
from turnsmith.runs.folder import RunFolder, write_json
from turnsmith.sandboxes import make_provider
from turnsmith.synthesis.practice.making import PracticeSpec, make_practice_tasks

pytestmark = pytest.mark.slow

NUM_TASKS, GROUP_SIZE = 6, 5
STAGE = StageConfig(
    name="rl", iterations=1, tasks_per_iteration=NUM_TASKS, group_size=GROUP_SIZE, batch_size=8, max_turns=6, max_context=1_280,
    length_threshold=5, max_silent_iterations=9,
    optimizer=OptimizerConfig(learning_rate=3e-4, max_tokens_per_micro_batch=8_192),
)  # fmt: skip
CONFIG = RunConfig(
    seed=1,
    require_qualified=False,
    model=ModelConfig(threads=1),
    agent=AgentConfig(
        prompts="brief", max_context=1_280, max_new_tokens=160, window_lines=10, max_observation_tokens=320
    ),
    rollouts=RolloutConfig(concurrency=NUM_TASKS * GROUP_SIZE, tests_timeout_s=30),
)


class Heard(Silence):
    """Progress that records its messages."""

    def __init__(self):
        self.said = []

    def log(self, text):
        self.said.append(text)


@pytest.fixture(scope="module")
def task_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks") / "practice"

    async def make():
        provider = make_provider(SandboxConfig())
        try:
            await make_practice_tasks(PracticeSpec("train", NUM_TASKS, 0.0, seed=5), folder, provider)
        finally:
            await provider.close()

    asyncio.run(make())
    return folder


@dataclass
class Played:
    config: RunConfig
    folder: RunFolder
    warnings: list[list[str]]
    """Warnings of each iteration; the message that stopped the run is the last."""

    def examine(self, **chosen):
        asked = {"stage": None, "iteration": None, "limit": 12, "progress": Silence()} | chosen
        return examine_run(self.config, self.folder, **asked)


@pytest.fixture
def play(task_folder, tmp_path):
    """Run the recipe with an engine."""

    async def run(engine="Honest", iterations=1, seed=1, group_size=GROUP_SIZE, **model):
        stage = STAGE.model_copy(update={"iterations": iterations, "group_size": group_size})
        chosen = {
            "seed": seed,
            "train_tasks": TaskSetConfig(path=str(task_folder)),
            "engine": EngineConfig(kind=f"support.engines.faulty_engines:open_{engine}"),
            "model": CONFIG.model.model_copy(update=model),
            "stages": [stage],
        }
        config, folder, heard = CONFIG.model_copy(update=chosen), RunFolder(tmp_path / f"{engine}-{seed}"), Heard()
        write_json(folder.config, config.model_dump(mode="json"))
        try:
            await run_recipe(config, folder, heard)
        except* TrainingError as group:
            heard.log(f"warning: {group.exceptions[0]}")
            heard.log("rl 0/0")
        return Played(config, folder, split_by_iteration(heard.said))

    return run


def split_by_iteration(said):
    """Split the warnings by iteration; the summary of an iteration follows its warnings."""
    iterations = [[]]
    for text in said:
        if text.startswith("rl "):
            iterations.append([])
        elif text.startswith("warning: "):
            iterations[-1].append(text)
    return iterations[1:]


FAULTS = {
    "TopK": (1, "top_k", r"drawn at top_k 4, while log-probs of the policy are reported"),
    "LowTemperature": (1, "temperature", "drawn at temperature 0\\.(8[5-9]|9[0-4])"),
    "ReportedLowTemperature": (1, "log-prob gap", "temperature 0.9, drawn and reported: explains 100"),
    "Bfloat16": (1, "log-prob gap", "rounding of layers that compute in bfloat16: explains "),
    "StaleWeights": (2, "log-prob gap", "stale weights, those of the base: explains 100"),
    "StaleCache": (
        2,
        "log-prob gap",
        "a stale cache, keys of prompts known from before by the weights of the base: explains ",
    ),
    "ShiftedPositions": (1, "log-prob gap", "positions off by \\+1 after the first prompt: explains 100"),
    "Retokenising": (1, "log-prob gap", "observations with a space before them: explains 100"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_detected_at_once_and_named(play, name, monkeypatch):
    iterations, warning, conclusion = FAULTS[name]
    # A weak temperature that shows in frequencies alone takes some thousand tokens: six nats of thirteen come with each.
    monkeypatch.setattr(sampler_check, "SHARE", 1.0)
    played = await play(name, iterations, group_size=4 * GROUP_SIZE if name == "LowTemperature" else GROUP_SIZE)
    report = played.examine(limit=12 if warning == "log-prob gap" else 4 * NUM_TASKS * GROUP_SIZE)
    assert any(warning in said for said in played.warnings[iterations - 1]), played.warnings
    if played.folder.iteration("rl", iterations - 1).metrics.exists():  # training went on
        assert any(remark.startswith("training warned: ") for remark in report.remarks)
    assert re.match(conclusion, report.conclusion), report.conclusion
    for stretches in (report.by_turn, report.by_position):
        assert [each.first for each in stretches] == sorted({each.first for each in stretches}) and len(stretches) > 1
        assert sum(each.num_tokens for each in stretches) == report.num_tokens


@pytest.mark.parametrize(("dtype", "seed"), [("float32", 1), ("bfloat16", 2)])
async def test_a_correct_engine_causes_no_warning_in_its_dtype(play, dtype, seed):
    played = await play("Honest", seed=seed, dtype=dtype)
    doubts = ("log-prob gap", "surprising", "as likely")
    assert not [said for said in played.warnings[0] for doubt in doubts if doubt in said]
    report = played.examine()
    assert "rounding" in report.conclusion
    assert report.gap < (1e-5 if dtype == "float32" else 5e-3)
