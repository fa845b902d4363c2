"""Run of a tiny random model; its rollouts come from prepared journals or from real episodes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from support.episodes.digests import with_digests
from support.episodes.silence import Silence
from support.models.small_models import make_model
from support.models.small_tokenizers import make_tokenizer
from turnsmith.agent import loop
from turnsmith.agent.dialogues.tokens import TokenDialogueFactory
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.audit.auditor import Auditor
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import AgentConfig, GapConfig, OptimizerConfig, RFTConfig, RolloutConfig, RunConfig, StageConfig
from turnsmith.engines.base import SharedWeights
from turnsmith.engines.torch.blocks import blocks_for
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.grading.grading import Grader
from turnsmith.recipes import sampler_check
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.policy.base import PolicySetup, Start
from turnsmith.recipes.policy.local import TokenPolicy
from turnsmith.rollouts.generator import Generator
from turnsmith.runs.folder import RunFolder
from turnsmith.synthesis.repositories import to_tree, write_shared_layer
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking.feed import Feed
from turnsmith.training.local import LocalTrainer
from turnsmith.types import Outcome, StopReason, Task, Trajectory, Turn

torch.set_num_threads(1)

MAX_CONTEXT = 4_096
OPTIMIZER = OptimizerConfig(learning_rate=1e-2, max_tokens_per_micro_batch=256)
STAGE = StageConfig(
    name="one", iterations=2, tasks_per_iteration=2, group_size=2, batch_size=2, max_turns=2, max_context=MAX_CONTEXT,
    length_threshold=1, optimizer=OPTIMIZER,
)  # fmt: skip
RFT = RFTConfig(
    rollouts_per_task=2, batch_size=2, max_turns=2, max_context=MAX_CONTEXT, optimizer=OPTIMIZER.model_dump(),
)  # fmt: skip
CONFIG = RunConfig(
    train_tasks={"practice_tasks": 1},
    agent=AgentConfig(prompts="brief", max_turns=5, max_context=MAX_CONTEXT, max_new_tokens=4, window_lines=10),
    rollouts=RolloutConfig(concurrency=4, tests_timeout_s=30),
    rft=RFT,
    stages=[STAGE],
    # Hand-made trajectories carry tokens and log-probs that no policy gave them.
    logprob_gap=GapConfig(warn=50.0, stop=100.0),
)


def make_task(name: str) -> Task:
    return Task(
        instance_id=name, repo="r", base_commit="0", problem_statement="p", FAIL_TO_PASS=["t"], PASS_TO_PASS=[], patch="",
        layers=["layer"],
    )  # fmt: skip


def make_attempt(name: str, outcome: Outcome, *, prompt: int = 3, turns: int = 1, broken: bool = False) -> Trajectory:
    """Make a trajectory `stage/task/index` with a prompt and turns of three tokens, all log-probs -1."""
    starts = range(prompt, prompt + 3 * turns, 3)
    attempt = Trajectory(
        trajectory_id=name, group_id=name.rpartition("/")[0], index=int(name.rpartition("/")[2]),
        instance_id=name.split("/")[1], iteration=0, seed=0,
        token_ids=[(7 * at + len(name)) % 61 for at in range(prompt + 3 * turns)],
        sampled=[False] * prompt + [True] * 3 * turns, logprobs=[0.0] * prompt + [-1.0] * 3 * turns,
        turns=[
            Turn(start=at, end=at + 3, text="", command=None if broken else "ls", format_error="no_command" if broken else None)
            for at in starts
        ],
        stop_reason=StopReason.SUBMITTED, outcome=outcome, prompt_tokens=prompt,
    )  # fmt: skip
    return with_digests(attempt)


def bare_run(config: RunConfig = CONFIG) -> Any:
    """Return the parts of a run that training needs; its folder is `run` in the working directory."""
    return SimpleNamespace(config=config, progress=Silence(), folder=RunFolder(Path("run")))


async def open_trainer(setup: PolicySetup, start: Start) -> LocalTrainer:
    return LocalTrainer(setup.model(), start.optimizer, start.total_steps, start.weights.policy_version)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture
def make_run(folder, tmp_path, provider, monkeypatch):
    """Return a run as a new process sees it: new weights, the same run folder, tasks `a`, `b`, `c`."""
    # Hand-made trajectories carry tokens that no policy sampled.
    monkeypatch.setattr(sampler_check, "count_checked", lambda trajectories: 0)
    monkeypatch.setattr(loop, "MAX_FORMAT_ERRORS", 9)

    def make(config: RunConfig = CONFIG, seed: int = 0) -> RunContext:
        renderer = ChatRenderer(make_tokenizer())
        model = make_model(seed=seed, vocab_size=350, max_position_embeddings=MAX_CONTEXT)
        engine = InProcessEngine(model, max_context=MAX_CONTEXT, num_blocks=4 * blocks_for(MAX_CONTEXT))
        scaffold = load_scaffold(prompts="brief")
        grader = Grader(provider, tests_timeout_s=30, num_workers=1)
        auditor = Auditor(provider, tests_timeout_s=30, num_workers=1)
        generator = Generator(
            TokenDialogueFactory(engine, renderer), provider, grader, scaffold, config.rollouts, Silence()
        )
        write_shared_layer(tmp_path / "layer", to_tree({"empty.py": ""}))
        tasks = TaskSet("train", [make_task(name) for name in "abc"], tmp_path / "tasks.jsonl")
        setup = PolicySetup(config, lambda: model, folder.server_logs, folder.costs, Silence())
        policy = TokenPolicy(renderer, engine, SharedWeights(0, model), setup, open_trainer)
        feed = Feed(config, folder, Silence())
        return RunContext(config, folder, policy, scaffold, generator, auditor, tasks, [], Silence(), feed)

    return make
