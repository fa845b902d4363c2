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


class RopeScaling(Section):
    """Extension of the model's context by YaRN (arXiv 2309.00071)."""

    rope_type: Literal["yarn"] = "yarn"
    """Method of the extension."""
    factor: float = Field(gt=1)
    """Extended context divided by the original one; the paper extends 32k tokens by 4.0."""
    original_max_position_embeddings: int | None = Field(None, ge=1)
    """Context in which the model was pre-trained, in tokens; that of its config.json if absent."""


class ModelConfig(Section):
    """Base policy."""

    path: Annotated[str, PathKey()] = "tiny"
    """Hugging Face model directory, `hub:OWNER/NAME` after `turnsmith models get`, or `tiny`, the policy of the package."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of the layers; weights, optimizer and output head stay in float32."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the model; `auto` uses CUDA if it is available."""
    threads: int = Field(0, ge=0)
    """Torch threads of this process; 0 keeps torch's default."""
    rope_scaling: RopeScaling | None = None
    """Extension of the context, such as `{ factor = 4.0 }`; that of the model's config.json if absent."""
    chat: ChatConfig = ChatConfig()
    """Chat template, and place of the system prompt in it."""
