"""RL on a handful of tasks makes the shipped base better at them; with permuted rewards, the same run does not."""

import json
import statistics

from pytest import mark

from turnsmith.config import AgentConfig, OptimizerConfig, RolloutConfig, RunConfig, StageConfig, TaskSetConfig
from turnsmith.recipes.whole import run
from turnsmith.runs import RunFolder
from turnsmith.tracking import Silence

NUM_ITERATIONS = 6
STAGE = StageConfig(
    name="learn", iterations=NUM_ITERATIONS, tasks_per_iteration=8, group_size=8, batch_size=16, max_turns=8,
    max_context=1_024, length_threshold=5, optimizer=OptimizerConfig(learning_rate=3e-4, max_tokens_per_micro_batch=8_192),
)  # fmt: skip
CONFIG = RunConfig(
    seed=1,
    train_tasks=TaskSetConfig(practice_tasks=8, difficulty=0.0, seed=5),
    agent=AgentConfig(
        prompts="brief", max_turns=8, max_context=1_024, max_new_tokens=96, window_lines=10, max_observation_tokens=320
    ),
    rollouts=RolloutConfig(concurrency=64, tests_timeout_s=30),
    stages=[STAGE],
)


async def learn(path, *, permute_rewards):
    """Share resolved in the first iteration and over the last two."""
    stage = STAGE.model_copy(update={"permute_rewards": permute_rewards})
    folder = RunFolder(path)
    await run(CONFIG.model_copy(update={"stages": [stage]}), folder, Silence())
    metrics = [json.loads(folder.metrics("learn", index).read_text()) for index in range(NUM_ITERATIONS)]
    rates = [iteration["rollouts/resolved_rate"] for iteration in metrics]
    assert max(iteration.get("logprob_gap/mean", 0.0) for iteration in metrics) < 1e-4
    return rates[0], statistics.fmean(rates[-2:])


@mark.slow
@mark.timeout(400)
async def test_rl_learns_from_rewards_and_not_from_permuted_ones(tmp_path):
    before, after = await learn(tmp_path / "real", permute_rewards=False)
    control_before, control_after = await learn(tmp_path / "control", permute_rewards=True)
    assert control_before == before
    assert after - before >= 0.15
    assert control_after - control_before < (after - before) / 2
