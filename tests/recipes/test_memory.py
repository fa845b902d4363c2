"""Runs that do not fit into memory are refused before weights are loaded."""

import json
from pathlib import Path

import pytest
import torch

from support.episodes.silence import Silence
from turnsmith.config import AgentConfig, EngineConfig, ModelConfig, RunConfig, TrainerConfig
from turnsmith.config.files import load
from turnsmith.engines.torch.blocks import BLOCK_TOKENS
from turnsmith.errors import UsageError
from turnsmith.recipes.policy.opening import load_base, open_policy
from turnsmith.runs.folder import RunFolder
from turnsmith.training.memory import estimate, plan_cache
from turnsmith.training.model import logprobs_of_sampled
from turnsmith.training.shape import read_shape
from turnsmith.types import MicroBatch, Sample

ROOT = Path(__file__).parents[2]
CONFIGS, TINY = ROOT / "configs", ROOT / "src" / "turnsmith" / "policies" / "tiny"
QWEN_72B = {
    "model_type": "qwen2", "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064, "tie_word_embeddings": False,
}  # fmt: skip
QWEN_HALF_B = {
    "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
    "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True,
}  # fmt: skip


def model_directory(path, config):
    """Return a directory with weights that cannot be loaded."""
    (path / "config.json").write_text(json.dumps(config))
    (path / "model.safetensors").write_bytes(b"none")
    (path / "tokenizer.json").write_text("{}")
    return path


@pytest.mark.parametrize("name", ["paper-72b-stage1", "paper-72b-stage2"])
def test_a_72b_model_is_refused_from_its_config_alone(name, tmp_path):
    config = load(CONFIGS / f"{name}.toml", [], RunConfig)
    with pytest.raises(UsageError, match=r"needs about [\d.,]+ GiB .*: use a lower max_tokens"):
        plan_cache(config, model_directory(tmp_path, QWEN_72B))


async def test_weights_that_do_not_fit_are_not_opened(tmp_path):
    directory = model_directory(tmp_path, QWEN_72B)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (directory / name).write_bytes((TINY / name).read_bytes())
    with pytest.raises(UsageError, match="needs about"):
        await open_policy(RunConfig(model=ModelConfig(path=str(directory))), RunFolder(tmp_path), Silence())


def test_the_cache_takes_at_most_its_share_of_free_memory(tmp_path):
    """A cache for 512 episodes of 32k tokens would take 192 GiB in float32."""
    directory = model_directory(tmp_path, QWEN_HALF_B)
    config = RunConfig(agent=AgentConfig(max_context=32_768), model=ModelConfig(dtype="bfloat16", device="cpu"))
    num_blocks = plan_cache(config.model_copy(update={"engine": EngineConfig(kv_memory_gb=1.0)}), directory)
    assert num_blocks == 2**30 // (BLOCK_TOKENS * 2 * 24 * 2 * 64 * 2)
    with pytest.raises(UsageError, match=r"\d+ tokens.* max_context 32768"):
        plan_cache(config.model_copy(update={"engine": EngineConfig(kv_memory_gb=0.1)}), directory)


def test_the_shipped_policy_fits_with_room_for_all_its_episodes():
    config = load(CONFIGS / "laptop.toml", [], RunConfig)
    assert plan_cache(config, TINY) == config.rollouts.concurrency * 1_536 // BLOCK_TOKENS
    weights, training = estimate(config, read_shape(TINY), torch.device("cpu"))
    assert training > 3 * weights > 0


def test_the_gpu_of_an_engine_beside_ranks_holds_no_training():
    config = RunConfig(trainer=TrainerConfig(kind="fsdp", num_ranks=4), model=ModelConfig(dtype="bfloat16"))
    shape = read_shape(TINY)
    assert estimate(config, shape, torch.device("cuda")) == (6 * shape.num_parameters, 0.0)


@pytest.mark.parametrize(("checkpointing", "num_forwards"), [("none", 1), ("full", 2), ("selective", 2)])
def test_the_base_model_recomputes_what_the_configuration_says(checkpointing, num_forwards):
    model = load_base(RunConfig(trainer=TrainerConfig(activation_checkpointing=checkpointing)))
    calls = []
    model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    sample = Sample("a", "g", [1, 2, 3], [False, True, True], [0.0] * 3, [1.0] * 3)
    logprobs_of_sampled(model, MicroBatch([sample])).sum().backward()
    assert len(calls) == num_forwards
