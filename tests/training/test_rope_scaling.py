"""YaRN from the configuration key `model.rope_scaling`: same policy in trainer, engine, servers and checkpoints."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config

from support.models.small_models import make_model
from turnsmith.config import ModelConfig, OptimizerConfig, RopeScaling
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.torch.blocks import blocks_for
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.engines.vllm.settings import ServerRequirements, find_problem, list_arguments
from turnsmith.errors import UsageError
from turnsmith.training.configuration import read_config
from turnsmith.training.local import LocalTrainer
from turnsmith.training.model import load_model, logprobs_of_sampled
from turnsmith.types import MicroBatch, Sample

YARN = RopeScaling(factor=4.0, original_max_position_embeddings=64)
FAMILIES = ["qwen2", "qwen3", "llama", "mistral"]


@pytest.fixture(params=FAMILIES)
def directory(request, tmp_path):
    """Make a model with 64 positions; Mistral without its window."""
    changes = {"sliding_window": None} if request.param == "mistral" else {}
    make_model(request.param, max_position_embeddings=64, **changes).save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def sample_of(token_ids, num_prompt):
    zeros = np.zeros(len(token_ids))
    return Sample("t", "g", token_ids, np.arange(len(token_ids)) >= num_prompt, zeros, zeros)


async def test_trainer_and_engine_agree_beyond_the_original_context(directory):
    model = load_model(ModelConfig(path=str(directory), rope_scaling=YARN))
    engine = InProcessEngine(model, max_context=256, num_blocks=blocks_for(256))
    prompt = np.random.default_rng(0).integers(0, 61, 200)
    answer = await engine.generate(GenerateRequest("e", prompt, 40, frozenset(), seed=1))
    whole = sample_of(np.concatenate([prompt, answer.token_ids]), len(prompt))
    with torch.no_grad():
        ours = logprobs_of_sampled(model, MicroBatch([whole])).numpy()
        plain = logprobs_of_sampled(load_model(ModelConfig(path=str(directory))), MicroBatch([whole])).numpy()
    np.testing.assert_allclose(ours, answer.logprobs, atol=2e-5)
    assert np.abs(ours - plain).max() > 1e-2


async def test_a_checkpoint_records_the_extension_and_transformers_computes_it(directory, tmp_path):
    model = load_model(ModelConfig(path=str(directory), rope_scaling=YARN))
    await LocalTrainer(model, OptimizerConfig()).save(tmp_path / "checkpoint")
    stored = json.loads((tmp_path / "checkpoint" / "config.json").read_text())
    assert stored["max_position_embeddings"] == 256
    assert stored["rope_parameters"].items() >= YARN.model_dump().items()
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint", attn_implementation="eager")
    whole = sample_of(np.random.default_rng(1).integers(0, 61, 120), 1)
    with torch.no_grad():
        logits = again(torch.tensor(whole.token_ids)[None].long()).logits[0].log_softmax(-1)
        ours = logprobs_of_sampled(model, MicroBatch([whole]))
    expected = logits[:-1].gather(1, torch.tensor(whole.token_ids)[1:, None].long())[:, 0]
    torch.testing.assert_close(ours, expected, rtol=0, atol=2e-5)


async def test_the_extension_of_an_extended_model_is_the_same(directory, tmp_path):
    extended = load_model(ModelConfig(path=str(directory), rope_scaling=YARN))
    extended.save_pretrained(tmp_path / "extended")
    for scaling in (None, YARN, RopeScaling(factor=4.0)):
        again = read_config(tmp_path / "extended", scaling)
        assert again.rope_parameters == extended.config.rope_parameters
        assert again.max_position_embeddings == 256


@pytest.mark.parametrize(("scaling", "positions"), [(None, 64), (RopeScaling(factor=2.0), 128), (YARN, 256)])
def test_the_engine_accepts_a_context_up_to_the_extended_one(tmp_path, scaling, positions):
    make_model(max_position_embeddings=64).save_pretrained(tmp_path)
    model = load_model(ModelConfig(path=str(tmp_path), rope_scaling=scaling))
    InProcessEngine(model, max_context=positions, num_blocks=blocks_for(512))
    with pytest.raises(UsageError, match=f"above the {positions} positions"):
        InProcessEngine(model, max_context=positions + 1, num_blocks=blocks_for(512))


def test_a_server_gets_the_extension_as_an_override(tmp_path):
    make_model(max_position_embeddings=64).save_pretrained(tmp_path)
    facts = {"dtype": "float32", "max_context": 256, "num_episodes": 8, "kv_bytes": 10**8, "seed": 0}
    plain = ServerRequirements(tmp_path, read_config(tmp_path), **facts)
    extended = ServerRequirements(tmp_path, read_config(tmp_path, YARN), **facts, is_extended=True)
    assert "--hf-overrides" not in list_arguments(plain, eager=True, more=[])
    arguments = list_arguments(extended, eager=True, more=[])
    override = json.loads(arguments[arguments.index("--hf-overrides") + 1])
    assert override["max_position_embeddings"] == 256
    assert override["rope_parameters"] == read_config(tmp_path, YARN).rope_parameters
    reported = {"version": "0.32.0", "shape": plain.shape, "max_model_len": 256, "rope": plain.rope}
    assert "--hf-overrides" in find_problem(reported, extended)


def test_a_model_without_rotary_embedding_is_refused(tmp_path):
    config = GPT2Config(vocab_size=61, n_positions=64, n_embd=32, n_layer=1, n_head=2)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"model\.rope_scaling extends one rotary embedding"):
        read_config(tmp_path, YARN)
