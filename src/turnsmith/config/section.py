"""Base class of all configuration sections."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Frozen configuration section that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
