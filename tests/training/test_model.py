"""Model loading, and log-probs compared with plain transformers."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from support.models.plain_varlen import plain_varlen
from turnsmith.config import ModelConfig
from turnsmith.errors import UsageError
from turnsmith.training import model as model_module
from turnsmith.training.model import PackedLayout, load_model, logprobs_of_sampled, surprisal_of_sampled
from turnsmith.types import MicroBatch


def plain_logprobs(model, sample):
    """Compute log-probs one sample at a time from all logits."""
    logits = model(input_ids=torch.tensor([sample.token_ids.tolist()])).logits[0].float().log_softmax(-1)
    positions = [t for t, is_in_loss in enumerate(sample.loss_mask) if is_in_loss]
    return torch.stack([logits[t - 1, int(sample.token_ids[t])] for t in positions])


@pytest.fixture(params=["qwen2", "llama"])
def directory(request, make_model, tmp_path):
    make_model(request.param).save_pretrained(tmp_path)
    return tmp_path


def test_packed_logprobs_and_gradients_equal_unpacked_transformers(directory, samples):
    ours = load_model(ModelConfig(path=str(directory)))
    plain = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager").eval()
    weights = torch.randn(sum(sample.num_loss_tokens for sample in samples))
    packed = logprobs_of_sampled(ours, MicroBatch(samples))
    expected = torch.cat([plain_logprobs(plain, sample) for sample in samples])
    assert torch.allclose(packed, expected, atol=1e-5)
    (packed * weights).sum().backward()
    (expected * weights).sum().backward()
    for (name, a), b in zip(ours.named_parameters(), plain.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, atol=1e-5 * max(1.0, b.grad.abs().max().item())), name


def test_varlen_attention_equals_attention_per_sample(monkeypatch):
    layout = PackedLayout([3, 1, 6], torch.device("cpu"))
    query, key, value = (torch.randn(1, heads, 10, 8) for heads in (4, 2, 2))
    one_by_one = layout.attend(0, query, key, value, 0.3)
    monkeypatch.setattr("turnsmith.engines.torch.attention.varlen_attn", plain_varlen)
    monkeypatch.setattr("turnsmith.training.model.has_kernel", lambda device, dtype: True)
    torch.testing.assert_close(layout.attend(0, query, key, value, 0.3), one_by_one)


def test_chunks_of_the_head_keep_the_sums_of_surprisal(make_model, samples, monkeypatch):
    whole = surprisal_of_sampled(make_model(), MicroBatch(samples))
    monkeypatch.setattr(model_module, "MAX_CHUNK_LOGITS", 61 * 5)
    torch.testing.assert_close(surprisal_of_sampled(make_model(), MicroBatch(samples)), whole, rtol=1e-6, atol=1e-6)


def test_in_bfloat16_weights_gradients_and_logprobs_stay_in_fp32(directory, samples):
    model = load_model(ModelConfig(path=str(directory), dtype="bfloat16"))
    logprobs = logprobs_of_sampled(model, MicroBatch(samples), torch.bfloat16)
    exact = logprobs_of_sampled(model, MicroBatch(samples))
    logprobs.sum().backward()
    assert {tensor.dtype for p in model.parameters() for tensor in (p, p.grad)} == {torch.float32}
    assert logprobs.dtype == torch.float32
    assert 0 < (logprobs - exact).abs().mean() < 0.03


def test_error_for_missing_model_has_its_path(tmp_path):
    with pytest.raises(UsageError, match=f"no model at {tmp_path}/nothing"):
        load_model(ModelConfig(path=str(tmp_path / "nothing")))


def test_model_with_unsupported_attention_is_refused(make_model, tmp_path):
    make_model(use_sliding_window=True, sliding_window=8, max_window_layers=1).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="sliding_attention"):
        load_model(ModelConfig(path=str(tmp_path)))


def test_a_sliding_window_without_a_switch_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"sliding_window 8.*plain causal attention"):
        load_model(ModelConfig(path=str(make_directory(tmp_path / "window", "mistral", sliding_window=8))))
    load_model(ModelConfig(path=str(make_directory(tmp_path / "none", "mistral", sliding_window=None))))


def test_disabled_sliding_window_is_accepted(make_model, tmp_path):
    make_model().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"sliding_window": 4096, "use_sliding_window": False}))
    load_model(ModelConfig(path=str(tmp_path)))


def make_directory(tmp_path, kind, **changes):
    """Make a tiny random model of any transformers architecture."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 48, "num_key_value_heads": 4, "initializer_range": 0.3}
    sizes |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes | changes))
    model.eval().save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", ["gpt2", "gpt_neox", "olmo2", "opt", "phi", "qwen3"])
def test_other_architectures_work_through_their_own_forward(kind, samples, tmp_path):
    directory = make_directory(tmp_path, kind)
    ours = load_model(ModelConfig(path=str(directory)))
    plain = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager").eval()
    expected = torch.cat([plain_logprobs(plain, sample) for sample in samples])
    assert torch.allclose(logprobs_of_sampled(ours, MicroBatch(samples)), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("bloom", {}, "custom attention code"),
        ("cohere", {}, "logit_scale"),
        ("falcon", {}, "cannot be used"),
        ("granite", {"logits_scaling": 8.0}, "logits_scaling"),
    ],
)
def test_unsupported_architectures_are_refused(kind, changes, reason, tmp_path):
    with pytest.raises(UsageError, match=reason):
        load_model(ModelConfig(path=str(make_directory(tmp_path, kind, **changes))))


def test_missing_weights_or_broken_config_raise_usage_error(directory):
    (directory / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(UsageError, match="cannot be used"):
        load_model(ModelConfig(path=str(directory)))
    (directory / "config.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be used"):
        load_model(ModelConfig(path=str(directory)))


def test_missing_weights_are_not_randomised(directory):
    weights = load_file(directory / "model.safetensors")
    del weights["model.layers.0.mlp.down_proj.weight"]
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match=r"missing from all files, e.g. model.layers.0.mlp.down_proj.weight"):
        load_model(ModelConfig(path=str(directory)))


def test_weights_of_another_shape_raise_usage_error(directory):
    weights = load_file(directory / "model.safetensors")
    weights["model.norm.weight"] = weights["model.norm.weight"][:-1].clone()
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match="cannot be used"):
        load_model(ModelConfig(path=str(directory)))


def test_hooks_on_the_models_modules_fire(make_model, samples):
    model, seen = make_model(), []
    for layer in model.model.layers:
        layer.mlp.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    logprobs_of_sampled(model, MicroBatch(samples))
    assert seen == [(1, sum(len(sample) for sample in samples), 32)] * 2
