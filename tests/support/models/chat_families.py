"""Model families: chat templates written from their documentation, with small tokenizers of the same kind.

The templates omit tools. The tokenizers have the family's special tokens and treatment of spaces.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from support.models.small_sentencepiece import make_sentencepiece
from support.models.small_tokenizers import make_byte_level
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import ChatConfig

TEMPLATES = Path(__file__).parents[2] / "chat" / "templates"
AS_SHIPPED, KEEP = ChatConfig(), ChatConfig(template="keep-turns")
FOLDED = ChatConfig(system_prompt="first-user-message")
WORDS = r"""[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
"""Word pattern of byte-level tokenizers since GPT-4: line breaks stay together, numbers have at most three digits."""
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
INST = ("<s>", "</s>")
GEMMA = ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
GLM = ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
PHI_3 = ("<|endoftext|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
LLAMA = tuple(f"<|{name}|>" for name in "begin_of_text end_of_text start_header_id end_header_id eom_id eot_id".split())


@dataclass(frozen=True)
class Family:
    """Tokenizer and template of a family."""

    special: tuple[str, ...]
    end_of_turn: str
    stops: tuple[str, ...]
    """Further stop tokens of the model's generation_config.json."""
    chat: ChatConfig = AS_SHIPPED
    """Configuration that the template needs."""
    bos: str | None = None
    spaces: str = "bytes"
    takes: str = ""
    """Sides on which special tokens absorb adjacent spaces."""
    thinks: bool = False


FAMILIES = {
    "qwen2.5": Family(CHATML, "<|im_end|>", ("<|endoftext|>",)),
    "qwen3": Family(CHATML, "<|im_end|>", ("<|endoftext|>",), KEEP, thinks=True),
    "llama-3.2": Family(LLAMA, "<|eot_id|>", ("<|end_of_text|>", "<|eom_id|>"), bos="<|begin_of_text|>"),
    "mistral-v0.2": Family(INST, "</s>", (), FOLDED, "<s>", "before every text"),
    "mistral-v0.3": Family(
        (*INST, "[INST]", "[/INST]"), "</s>", (), FOLDED, "<s>", "before the first text"
    ),
    "mistral-v7": Family((*INST, "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"), "</s>", (), bos="<s>"),
    "phi-3": Family(PHI_3, "<|end|>", ("<|endoftext|>",), spaces="before every text", takes="right"),
    "phi-4": Family((*CHATML, "<|im_sep|>"), "<|im_end|>", ("<|endoftext|>",), takes="left right"),
    "gemma-2": Family(GEMMA, "<end_of_turn>", ("<eos>",), FOLDED, "<bos>", "never"),
    "gemma-3": Family(GEMMA, "<end_of_turn>", ("<eos>",), bos="<bos>", spaces="never"),
    "glm-4": Family(GLM, "<|user|>", ("<|endoftext|>", "<|observation|>")),
    "glm-4.5": Family(GLM, "<|user|>", ("<|endoftext|>", "<|observation|>"), KEEP, thinks=True),
}  # fmt: skip


@cache
def make_core(family: Family, rename=str) -> Tokenizer:
    sides = {"lstrip": "left" in family.takes, "rstrip": "right" in family.takes}
    special = [AddedToken(rename(token), special=True, normalized=False, **sides) for token in family.special]
    return make_byte_level(special, WORDS) if family.spaces == "bytes" else make_sentencepiece(special, family.spaces)


def make_family_tokenizer(name: str, rename=str) -> PreTrainedTokenizerFast:
    """Make a tokenizer with the family's template; special tokens can be renamed."""
    family = FAMILIES[name]
    core = make_core(family, rename)
    if family.thinks:  # ordinary tokens, by the families' own account
        core.add_tokens([AddedToken(token, normalized=False) for token in ("<think>", "</think>")])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token=family.bos and rename(family.bos), eos_token=rename(family.end_of_turn)
    )
    tokenizer.chat_template = (TEMPLATES / f"{name}.jinja").read_text()
    return tokenizer


def make_renderer(name: str, chat: ChatConfig | None = None) -> ChatRenderer:
    """Make a renderer with the family's configuration, or with another."""
    tokenizer, family = make_family_tokenizer(name), FAMILIES[name]
    return ChatRenderer(tokenizer, chat or family.chat, tokenizer.convert_tokens_to_ids(list(family.stops)))
