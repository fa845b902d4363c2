"""Base class of all configuration sections, and the mark of keys that hold paths."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True)
class PathKey:
    """Mark of a key that holds a path, or a table that may hold paths. A run makes these paths absolute."""


class Section(BaseModel):
    """Frozen configuration section that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
