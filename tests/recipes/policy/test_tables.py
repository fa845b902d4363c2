"""Opening of every engine, trainer, scaffold, tool and algorithm that has a short name."""

import pytest

from support.engines.vllm_python import write_vllm_python
from support.episodes.silence import Silence
from support.models.small_models import stream
from turnsmith.agent.names import SCAFFOLDS, TOOLS
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.algo.algorithm import choose_algorithm
from turnsmith.algo.names import ALGORITHMS
from turnsmith.config import OptimizerConfig, RunConfig, StageConfig
from turnsmith.engines.base import SavedWeights
from turnsmith.recipes.policy.local import TokenPolicy
from turnsmith.recipes.policy.names import ENGINES, TRAINERS
from turnsmith.recipes.policy.opening import open_policy
from turnsmith.runs.folder import RunFolder

SMALL = {"agent": {"max_context": 512, "max_new_tokens": 32}, "rollouts": {"concurrency": 2}}


@pytest.fixture
def open_kind(tmp_path):
    """Open the policy of an engine and a trainer by name."""

    async def open_kind(engine, trainer="local", **keys):
        parts = SMALL | {"engine": {"kind": engine} | engine_settings(engine), "trainer": {"kind": trainer} | keys}
        return await open_policy(RunConfig.model_validate(parts), RunFolder(tmp_path / "run"), Silence())

    def engine_settings(name):
        if name == "vllm":
            return {"vllm": {"python": write_vllm_python(tmp_path)}}
        return {"openai": {"address": server.address, "model": MODEL}} if name == "openai" else {}

    pytest.importorskip("openai", reason="turnsmith[endpoint] is not installed")
    pytest.importorskip("uvicorn", reason="turnsmith[dev] is not installed")
    from support.engines.chat_server import MODEL, say, serving

    with serving(lambda messages: say("submit")) as server:
        yield open_kind


@pytest.mark.parametrize("name", ENGINES.paths)
async def test_every_engine_opens(open_kind, name):
    policy = await open_kind(name)
    try:
        assert policy.dialogues.count_prompt("Repair it.", "The total is wrong.") > 0
    finally:
        await policy.close()


async def test_a_local_trainer_has_the_configured_moments_and_the_next_one_starts_from_the_checkpoint(
    open_kind, tmp_path
):
    policy = await open_kind("inprocess", moments="bfloat16")
    try:
        assert (await policy.start_training(OptimizerConfig())).moments == "bfloat16"
        await policy.take(stream(policy.setup.model(), 1), tmp_path)
        assert policy.weights == SavedWeights(1, tmp_path)
    finally:
        await policy.close()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.ranks] * (name == "fsdp")) for name in TRAINERS.paths]
)
async def test_every_trainer_opens(open_kind, name):
    policy = await open_kind("inprocess", name)
    try:
        assert isinstance(policy, TokenPolicy)
        trainer = await policy.start_training(OptimizerConfig())
        assert (await trainer.publish()).policy_version == 0
        trainer.close()
    finally:
        await policy.close()


@pytest.mark.parametrize("scaffold", SCAFFOLDS.paths)
def test_every_scaffold_opens_with_every_tool(scaffold):
    assert {tool.name for tool in load_scaffold(scaffold, tools=list(TOOLS.paths)).tools} == set(TOOLS.paths)


@pytest.mark.parametrize("name", ALGORITHMS.paths)
def test_every_algorithm_opens(name):
    assert all(map(callable, choose_algorithm(StageConfig(name="one", algorithm=name))))
