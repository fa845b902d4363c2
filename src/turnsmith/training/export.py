"""Export of a trained policy as a Hugging Face model directory, with the sampling settings of training."""

from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, GenerationConfig

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.template import OWN
from turnsmith.chat.tokenizers import load_renderer
from turnsmith.config import ChatConfig
from turnsmith.engines.weights import load_complete
from turnsmith.errors import UsageError
from turnsmith.training.checkpoint import copy_tokenizer, save_model
from turnsmith.training.configuration import report_model_errors

Dtype = Literal["float32", "bfloat16"]


def write_model(checkpoint: Path, out: Path, dtype: Dtype, chat: ChatConfig) -> None:
    """Write a checkpoint's weights in `dtype`, with configuration, tokenizer, chat template and generation settings.

    Raises UsageError.
    """
    renderer = load_renderer(checkpoint, chat)
    with report_model_errors(checkpoint):
        model = load_complete(AutoModelForCausalLM, checkpoint, dtype=getattr(torch, dtype))
    model.generation_config = make_generation_config(renderer)
    try:
        save_model(model, out)
    except SafetensorError as error:
        raise UsageError(f"cannot write {out}: {error}: free disk space there") from error
    copy_tokenizer(checkpoint, out)
    if chat.template not in OWN:
        (out / "chat_template.jinja").write_text(renderer.tokenizer.get_chat_template(), "utf-8")


def make_generation_config(renderer: ChatRenderer) -> GenerationConfig:
    """Make generation settings as in training: temperature 1, no filters, the same stop tokens.

    Every setting is given, since programs replace a missing one by a default, such as `top_k` 50.
    """
    return GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        repetition_penalty=1.0,
        eos_token_id=sorted(renderer.stop_token_ids),
        pad_token_id=renderer.tokenizer.pad_token_id,
    )
