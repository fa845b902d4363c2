"""Byte-level BPE tokenizers with a chat template, trained in a moment; any text can be encoded."""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CORPUS = ["def total(values):\n    return sum(values)\n\n\nsystem user assistant command submit the\n"] * 20


def make_tokenizer(
    template: str | None = CHATML, special: tuple[str, ...] = ("<|im_start|>", "<|im_end|>"), eos: str = "<|im_end|>"
) -> PreTrainedTokenizerFast:
    """Make a tokenizer with these special tokens, and with the template if one is given."""
    core = make_byte_level(["<|endoftext|>", *special])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=eos, pad_token="<|endoftext|>")
    tokenizer.chat_template = template
    return tokenizer


def make_byte_level(special: list, words: str = "") -> Tokenizer:
    """Make a byte-level BPE with these special tokens first; words match GPT-2's pattern or the given one."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if words:
        split = pre_tokenizers.Split(Regex(words), "isolated")
        rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        core.pre_tokenizer = pre_tokenizers.Sequence([split, rest])
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    core.train_from_iterator(CORPUS, trainer)
    return core
