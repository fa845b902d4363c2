"""Section `[agent]`: scaffold and limits of an episode."""

from typing import Annotated

from pydantic import Field

from turnsmith.config.section import PathKey, Section


class AgentConfig(Section):
    """Scaffold and limits of an episode."""

    scaffold: str = "paper"
    """Tools and prompts: `paper` (nine tools), `bash` (only the shell), or an import path (docs/extending.md)."""
    tools: list[str] = []
    """Tools to add to the scaffold: names such as `search_file`, or import paths."""
    prompts: Annotated[str | None, PathKey()] = None
    """Prompt templates that replace those of the scaffold: `paper`, `brief` (for tiny models), `bash`, or a folder."""
    max_turns: int = Field(40, ge=1)
    """Number of turns after which the episode ends (T_max in the paper)."""
    max_context: int = Field(65_536, ge=64)
    """Largest trajectory in tokens, including the prompt."""
    max_new_tokens: int = Field(4_096, ge=1)
    """Maximum number of tokens sampled in one turn."""
    window_lines: int = Field(100, ge=2)
    """Lines shown by the file viewer."""
    max_observation_tokens: int = Field(8_000, ge=16)
    """Maximum tokens of one observation; the middle of a longer observation is replaced by a notice."""
    command_timeout_s: float = Field(60.0, gt=0)
    """Seconds that one command may take."""
    episode_timeout_s: float = Field(1_800.0, gt=0)
    """Seconds that all commands of an episode may take together."""
