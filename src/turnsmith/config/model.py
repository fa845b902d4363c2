"""Section `[model]`: base policy and chat template."""

from typing import Annotated, Literal

from pydantic import Field

from turnsmith.config.section import PathKey, Section


class ChatConfig(Section):
    """Chat template, and place of the system prompt in it."""

    template: Annotated[str, PathKey()] = "as-shipped"
    """Template: `as-shipped` (the model's), `keep-turns` (the model's, with earlier turns kept as sampled), or a file's path."""
    system_prompt: Literal["system-message", "first-user-message"] = "system-message"
    """Place of the system prompt; `first-user-message` is for chat templates without a system role."""


class ModelConfig(Section):
    """Base policy."""

    path: Annotated[str, PathKey()] = "tiny"
    """Hugging Face model directory, or `tiny` for the base policy that ships with the package."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of the layers; weights, optimizer and output head stay in float32."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the model; `auto` uses CUDA if it is available."""
    threads: int = Field(0, ge=0)
    """Torch threads of this process; 0 keeps torch's default."""
    chat: ChatConfig = ChatConfig()
    """Chat template, and place of the system prompt in it."""
