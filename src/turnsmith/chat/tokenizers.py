"""Loads tokenizers. The only file of this room that imports transformers, which takes seconds."""

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from turnsmith.errors import UsageError


def load_tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    """Tokenizer of a Hugging Face model directory. Raises UsageError where there is none, or no chat template."""
    # tokenizer.json says everything; AutoTokenizer would put the splitting rules of the model's family in their place.
    kind = PreTrainedTokenizerFast if (directory / "tokenizer.json").exists() else AutoTokenizer
    try:
        tokenizer = kind.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{directory} holds no tokenizer that can be loaded ({reason}): add tokenizer.json") from None
    if not tokenizer.chat_template:
        raise UsageError(
            f"the model directory {directory} has no chat template: add chat_template.jinja, or use an instruction-tuned model"
        )
    return tokenizer
