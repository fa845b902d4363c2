from turnsmith.config import AgentConfig, RolloutConfig
from turnsmith.rollouts.rollout import plan_rollouts

from .conftest import FIX

AGENT = AgentConfig(prompts="brief", max_turns=6, max_context=4_096, max_new_tokens=256, window_lines=10)


async def test_verdicts_are_shared_only_within_a_collection(make_generator, tree, tmp_path):
    generator = make_generator(FIX, RolloutConfig(concurrency=2))
    for iteration in range(2):
        rollouts = plan_rollouts([tree], prefix=f"{iteration}", iteration=iteration, num_each=2, seed_stream="1")
        played = await generator.collect(rollouts, AGENT, tmp_path / f"{iteration}.jsonl", label="x")
        assert sorted(trajectory.grade.shared for trajectory in played) == [False, True]
