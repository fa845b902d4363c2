"""Tokenizer of a GGUF file: byte-level BPE with the splitting rules that the file names."""

from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from turnsmith.errors import UsageError
from turnsmith.training.published.gguf_file import GgufFile

CONTROL, USER_DEFINED = 3, 4
"""Types of tokens that are not made by merges: special tokens, and others that are split off first."""
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Regular expression by which Qwen2 and Qwen3 split a text."""


def make_tokenizer(file: GgufFile) -> Tokenizer:
    """Make the tokenizer of a file. Raises UsageError if its kind or its splitting rules are not known."""
    kind, rules = file.require("tokenizer.ggml.model"), file.read("tokenizer.ggml.pre", "default")
    if kind != "gpt2":
        raise UsageError(f"{file.path} has a tokenizer of kind {kind}: only byte-level BPE (gpt2) can be converted")
    tokens, types = file.require("tokenizer.ggml.tokens"), file.require("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in file.require("tokenizer.ggml.merges")]
    model = models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=merges)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = make_rules(rules, file)
    if rules == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(
        [
            AddedToken(token, special=type_ == CONTROL, normalized=False)
            for token, type_ in zip(tokens, types, strict=True)
            if type_ in (CONTROL, USER_DEFINED)
        ]
    )
    return tokenizer


def make_rules(name: str, file: GgufFile) -> Any:
    """Make the rules that split a text before its merges. Raises UsageError if the name is not known."""
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rules: dict[str, list[Any]] = {
        "gpt-2": [whole],
        "smollm": [pre_tokenizers.Digits(individual_digits=True), whole],
        "qwen2": [
            pre_tokenizers.Split(Regex(QWEN_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ],
    }
    if name not in rules:
        known = ", ".join(rules)
        raise UsageError(f"{file.path} splits texts by the rules {name}: only {known} can be converted")
    return pre_tokenizers.Sequence(rules[name])


def describe_tokenizer(file: GgufFile) -> dict[str, Any]:
    """Return the content of `tokenizer_config.json`. Raises UsageError if the file has no chat template."""
    template = file.read("tokenizer.chat_template")
    if not template:
        raise UsageError(f"{file.path} has no chat template: choose a model that was trained on conversations")
    tokens = file.require("tokenizer.ggml.tokens")
    roles = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    numbers = {role: file.read(f"tokenizer.ggml.{name}_token_id") for role, name in roles.items()}
    named = {f"{role}_token": tokens[number] for role, number in numbers.items() if number is not None}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "chat_template": template,
        **named,
    }
