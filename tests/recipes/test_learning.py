"""RL on a few tasks improves the shipped base on them; with permuted rewards it does not."""

import json
import math

from pytest import mark

from support.episodes.silence import Silence
from turnsmith.config import (
    AgentConfig,
    EngineConfig,
    OptimizerConfig,
    RolloutConfig,
    RunConfig,
    StageConfig,
    TaskSetConfig,
    TrainerConfig,
)
from turnsmith.recipes.recipe import run_recipe
from turnsmith.runs.folder import RunFolder

NUM_ITERATIONS = 3
NUM_TASKS, GROUP_SIZE = 8, 10
STAGE = StageConfig(
    name="learn", iterations=NUM_ITERATIONS, tasks_per_iteration=NUM_TASKS, group_size=GROUP_SIZE, batch_size=32,
    max_turns=8, max_context=1_280, length_threshold=5,
    optimizer=OptimizerConfig(learning_rate=3e-4, max_tokens_per_micro_batch=8_192),
)  # fmt: skip
CONFIG = RunConfig(
    seed=1,
    train_tasks=TaskSetConfig(practice_tasks=NUM_TASKS, difficulty=0.0, seed=5),
    agent=AgentConfig(
        prompts="brief", max_turns=8, max_context=1_280, max_new_tokens=160, window_lines=10, max_observation_tokens=320
    ),
    rollouts=RolloutConfig(concurrency=NUM_TASKS * GROUP_SIZE, tests_timeout_s=30),
    stages=[STAGE],
)


async def learn(path, config=CONFIG, *, permute_rewards=False):
    """Return the resolved share of the first and the last iteration on the same tasks."""
    stage = STAGE.model_copy(update={"permute_rewards": permute_rewards})
    folder = RunFolder(path)
    await run_recipe(config.model_copy(update={"stages": [stage]}), folder, Silence())
    metrics = [json.loads(folder.iteration("learn", index).metrics.read_text()) for index in range(NUM_ITERATIONS)]
    assert all(iteration["optimizer/steps"] > 0 and iteration["logprob_gap/mean"] < 1e-4 for iteration in metrics)
    return metrics[0]["rollouts/resolved_rate"], metrics[-1]["rollouts/resolved_rate"]


def gain_in_standard_errors(before, after):
    """Return the gain in standard errors of two independent samples with pooled variance."""
    pooled = (before + after) / 2
    return (after - before) / math.sqrt(2 * pooled * (1 - pooled) / (NUM_TASKS * GROUP_SIZE))


@mark.slow
@mark.timeout(900)
async def test_rl_learns_from_rewards_and_not_from_permuted_ones(tmp_path):
    before, after = await learn(tmp_path / "real")
    control_before, control_after = await learn(tmp_path / "control", permute_rewards=True)
    # The same weights and seeds; only rounding, which depends on who decodes beside whom, may tell the two apart.
    assert abs(gain_in_standard_errors(before, control_before)) < 2
    assert gain_in_standard_errors(before, after) > 3
    # Permuted rewards say nothing of behaviour; but a clip wider above than below favours, a little, what is likely anyway.
    assert gain_in_standard_errors(control_before, control_after) < 2


@mark.slow
@mark.timeout(1_800)
async def test_engine_and_trainer_in_other_processes_learn_too(tmp_path):
    """The recipe knows only two protocols, so an engine and a trainer given by import path can replace the built-in ones."""
    pair = {
        "engine": EngineConfig(kind="support.engines.remote_pair:open_engine"),
        "trainer": TrainerConfig(kind="support.engines.remote_pair:open_trainer"),
    }
    before, after = await learn(tmp_path / "run", CONFIG.model_copy(update=pair))
    assert gain_in_standard_errors(before, after) > 3
