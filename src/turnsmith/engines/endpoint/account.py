"""Usage and cost of an endpoint by stage, in a file updated after each answer.

Requests repeated after a kill are recorded again, since they cost again.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from turnsmith.config import PricesConfig
from turnsmith.errors import UsageError
from turnsmith.runs.folder import read_json, write_json

MILLION = 1_000_000


class Entry(BaseModel):
    """Totals of one stage."""

    requests: int = Field(0, ge=0)
    """Requests sent."""
    answered: int = Field(0, ge=0)
    """Answers received; the fields below describe these."""
    refused: int = Field(0, ge=0)
    """Requests refused by the server (e.g. 429 or 500), which cost nothing."""
    unanswered: int = Field(0, ge=0)
    """Requests whose answer was lost or late; the server may have charged for them."""
    estimated: int = Field(0, ge=0)
    """Answers without token counts, which are estimated from bytes."""
    input_tokens: int = Field(0, ge=0)
    cached_tokens: int = Field(0, ge=0)
    """Input tokens that the server had cached."""
    output_tokens: int = Field(0, ge=0)
    cost: float = Field(0.0, ge=0)
    """Cost at the prices valid at the time; 0 without prices."""

    def __add__(self, other: "Entry") -> "Entry":
        return Entry(**{name: value + getattr(other, name) for name, value in self})


class Usage(BaseModel):
    """Usage of one answer."""

    input_tokens: int
    cached_tokens: int = 0
    output_tokens: int
    is_estimated: bool = False


@dataclass
class Account:
    """Account of one run."""

    file: Path
    prices: PricesConfig | None = None
    entries: dict[str, Entry] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.file.exists():
            self.entries = read_entries(self.file)

    @property
    def total(self) -> Entry:
        return sum(self.entries.values(), Entry())

    def record_refusal(self, stage: str) -> None:
        self._record(stage, Entry(requests=1, refused=1))

    def record_loss(self, stage: str) -> None:
        self._record(stage, Entry(requests=1, unanswered=1))

    def record_answer(self, stage: str, usage: Usage) -> None:
        tokens = usage.model_dump(exclude={"is_estimated"})
        estimated = int(usage.is_estimated)
        self._record(
            stage, Entry(requests=1, answered=1, estimated=estimated, cost=price(usage, self.prices), **tokens)
        )

    def _record(self, stage: str, added: Entry) -> None:
        self.entries[stage] = self.entries.get(stage, Entry()) + added
        write_json(self.file, self._dump())

    def _dump(self) -> dict[str, Any]:
        stages = {stage: entry.model_dump() for stage, entry in self.entries.items()}
        prices = self.prices.model_dump() if self.prices else None
        return {"prices": prices, "stages": stages, "total": self.total.model_dump()}


def read_entries(file: Path) -> dict[str, Entry]:
    """Read the entries by stage. Raises UsageError if the file is damaged."""
    try:
        return {stage: Entry.model_validate(entry) for stage, entry in read_json(file)["stages"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(f"{file} is damaged: restore a copy, or move it away to count from zero") from None


def price(usage: Usage, prices: PricesConfig | None) -> float:
    """Compute the cost of one answer; 0 without prices."""
    if prices is None:
        return 0.0
    cached_price = prices.input if prices.cached_input is None else prices.cached_input
    fresh = usage.input_tokens - usage.cached_tokens
    return (fresh * prices.input + usage.cached_tokens * cached_price + usage.output_tokens * prices.output) / MILLION
