"""vLLM servers on the cluster of a trainer with ranks: bad placements are refused, and weights go from ranks to servers."""

import pytest
from pydantic import ValidationError

from support.engines.vllm_python import write_vllm_python
from support.episodes.silence import Silence
from support.models.small_models import make_model
from turnsmith.config import ModelConfig, OptimizerConfig, RunConfig
from turnsmith.engines.base import GenerateRequest
from turnsmith.errors import UsageError
from turnsmith.recipes.faults import find_faults
from turnsmith.recipes.plan import find_tensor_parallelism
from turnsmith.recipes.policy.opening import open_policy
from turnsmith.recipes.policy.ranks import check_placement, count_server_gpus
from turnsmith.runs.folder import RunFolder

PLACED = {"kind": "vllm", "placement": "shared", "kv_memory_gb": 0.1, "vllm": {"python": "python"}}


def make_config(engine, kind="fsdp", **sections):
    return RunConfig.model_validate({"engine": engine, "trainer": {"kind": kind}} | sections)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "inprocess"}, r"placement starts vLLM servers on a cluster: set kind = vllm, vllm\.python"),
        ({"vllm": {"address": "http://a:1"}}, r"set kind = vllm, vllm\.python"),
        ({"kv_memory_gb": None}, r"kv_memory_gb, the GiB of the KV cache on each GPU"),
        ({"vllm": {"python": "python", "backend": "nccl"}}, r"placement shared cannot use vllm\.backend nccl"),
        ({"placement": "elsewhere"}, r"own.*shared"),
    ],
)
def test_placements_that_cannot_work_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        make_config(PLACED | changes)


def test_a_placement_without_ranks_is_refused_in_one_sentence():
    config = make_config(PLACED, kind="local")
    with pytest.raises(UsageError, match=r"engine\.placement shared .*: set trainer\.kind = fsdp") as caught:
        check_placement(config)
    assert str(caught.value) in [str(fault) for fault in find_faults(config)]
    check_placement(make_config(PLACED))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], (1, 1)), (["--tensor-parallel-size=4"], (4, 4)), (["-tp", "2", "--pipeline-parallel-size", "3"], (2, 6))],
)
def test_the_gpus_of_a_server_follow_from_its_arguments(arguments, expected):
    config = make_config(PLACED | {"vllm": {"python": "python", "arguments": arguments}})
    assert (find_tensor_parallelism(config), count_server_gpus(config)) == expected


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("placement", ["own", "shared"])
async def test_weights_go_from_ranks_to_servers_on_the_same_cluster(local_ray, tmp_path, placement, monkeypatch):
    make_model().save_pretrained(tmp_path / "base")
    monkeypatch.setattr("turnsmith.recipes.policy.local.load_renderer", lambda *arguments: None)
    config = make_config(
        PLACED | {"placement": placement, "vllm": {"python": write_vllm_python(tmp_path)}},
        model=ModelConfig(path=str(tmp_path / "base"), device="cpu"),
        agent={"max_context": 200, "max_new_tokens": 32},
    )
    policy = await open_policy(config, RunFolder(tmp_path / "run"), Silence())
    try:
        (tmp_path / "routes").unlink()
        await policy.rest()
        trainer = await policy.start_training(OptimizerConfig())
        await policy.take(await trainer.publish(), tmp_path / "base")
        routes = [line for line in (tmp_path / "routes").read_text().splitlines() if "sleep" in line or "wake" in line]
        is_shared = placement == "shared"
        assert (
            routes == ["/sleep?level=1", "/wake_up?tags=weights", "/wake_up?tags=kv_cache&tags=scheduling"] * is_shared
        )
        answer = await policy.engine.generate(GenerateRequest("a", [1, 2], 4, frozenset(), 0))
        assert len(answer.token_ids) == 4
        trainer.close()
    finally:
        await policy.close()
