"""Loads tokenizers. The only file of this room that imports transformers, which takes seconds."""

import json
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.template import OWN, read_template
from turnsmith.config import ChatConfig
from turnsmith.errors import UsageError


def load_renderer(directory: Path, chat: ChatConfig) -> ChatRenderer:
    """What turns text into the tokens of the model in this directory, and back. Raises UsageError."""
    tokenizer = load_tokenizer(directory, template=None if chat.template in OWN else read_template(chat.template))
    return ChatRenderer(tokenizer, chat, read_stop_tokens(directory))


def load_tokenizer(directory: Path, template: str | None = None) -> PreTrainedTokenizerBase:
    """Tokenizer of a Hugging Face model directory, with its own chat template where none is given.

    Raises UsageError where there is none, or no chat template.
    """
    # tokenizer.json says everything; AutoTokenizer would put the splitting rules of the model's family in their place.
    kind = PreTrainedTokenizerFast if (directory / "tokenizer.json").exists() else AutoTokenizer
    try:
        tokenizer = kind.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{directory} holds no tokenizer that can be loaded ({reason}): add tokenizer.json") from None
    tokenizer.chat_template = template or tokenizer.chat_template
    if not tokenizer.chat_template:
        raise UsageError(
            f"the model directory {directory} has no chat template: add chat_template.jinja, give --model.chat.template a file, "
            "or use an instruction-tuned model"
        )
    return tokenizer


def read_stop_tokens(directory: Path) -> set[int]:
    """Tokens at which the makers of the model stop: end of sequence in generation_config.json. Raises UsageError."""
    file = directory / "generation_config.json"
    try:
        found = json.loads(file.read_text("utf-8")).get("eos_token_id") if file.exists() else None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file} ({error}): repair it, or take it away") from None
    return {found} if isinstance(found, int) else set(found or ())
