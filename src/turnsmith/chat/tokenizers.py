"""Loading of tokenizers. Only this module of the package imports transformers, since that import takes seconds."""

import json
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.template import OWN, read_template
from turnsmith.config import ChatConfig
from turnsmith.errors import UsageError


def load_renderer(directory: Path, chat: ChatConfig) -> ChatRenderer:
    """Load the chat renderer for the model in a directory. Raises UsageError."""
    tokenizer = load_tokenizer(directory, template=None if chat.template in OWN else read_template(chat.template))
    return ChatRenderer(tokenizer, chat, read_stop_tokens(directory))


def load_tokenizer(directory: Path, template: str | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a Hugging Face model directory, with the given chat template or the model's own.

    Raises UsageError if the tokenizer or a chat template is missing.
    """
    # tokenizer.json is complete; AutoTokenizer would replace its splitting rules by those of the model's family.
    kind = PreTrainedTokenizerFast if (directory / "tokenizer.json").exists() else AutoTokenizer
    try:
        tokenizer = kind.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{directory} has no loadable tokenizer ({reason}): add tokenizer.json") from None
    tokenizer.chat_template = template or tokenizer.chat_template
    if not tokenizer.chat_template:
        raise UsageError(
            f"the model directory {directory} has no chat template: add chat_template.jinja, give --model.chat.template a file, "
            "or use an instruction-tuned model"
        )
    return tokenizer


def read_stop_tokens(directory: Path) -> set[int]:
    """Read the ids of a model's end-of-sequence tokens from generation_config.json. Raises UsageError."""
    file = directory / "generation_config.json"
    try:
        found = json.loads(file.read_text("utf-8")).get("eos_token_id") if file.exists() else None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file} ({error}): repair or remove it") from None
    return {found} if isinstance(found, int) else set(found or ())
