"""What an endpoint was asked and what that cost, by stage: a file that each answer brings up to date, so a kill loses none.

What is asked again after a kill costs again, and is booked again: the account is what was paid, not what was kept.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from turnsmith.config import PricesConfig
from turnsmith.errors import UsageError
from turnsmith.runs import read_json, write_json

MILLION = 1_000_000


class Entry(BaseModel):
    """The requests of one stage."""

    requests: int = Field(0, ge=0)
    """That were sent."""
    answered: int = Field(0, ge=0)
    """Of which the answer arrived: what follows is theirs."""
    refused: int = Field(0, ge=0)
    """That the server would not do, such as 429 or 500: they cost nothing."""
    unanswered: int = Field(0, ge=0)
    """Whose answer got lost on the way, or came too late: the server may have charged for them, and nobody told us what."""
    estimated: int = Field(0, ge=0)
    """Answers that said nothing of tokens, so that they are counted by bytes."""
    input_tokens: int = Field(0, ge=0)
    cached_tokens: int = Field(0, ge=0)
    """Of the input, what the server had in its cache."""
    output_tokens: int = Field(0, ge=0)
    cost: float = Field(0.0, ge=0)
    """At the prices of the day that they were asked; 0 without prices."""

    def __add__(self, other: "Entry") -> "Entry":
        return Entry(**{name: value + getattr(other, name) for name, value in self})


class Usage(BaseModel):
    """What one answer took."""

    input_tokens: int
    cached_tokens: int = 0
    output_tokens: int
    is_estimated: bool = False


@dataclass
class Account:
    """The books of one run."""

    file: Path
    prices: PricesConfig | None = None
    entries: dict[str, Entry] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.file.exists():
            self.entries = read_entries(self.file)

    @property
    def total(self) -> Entry:
        return sum(self.entries.values(), Entry())

    def book_refusal(self, stage: str) -> None:
        self._book(stage, Entry(requests=1, refused=1))

    def book_loss(self, stage: str) -> None:
        self._book(stage, Entry(requests=1, unanswered=1))

    def book_answer(self, stage: str, usage: Usage) -> None:
        tokens = usage.model_dump(exclude={"is_estimated"})
        estimated = int(usage.is_estimated)
        self._book(stage, Entry(requests=1, answered=1, estimated=estimated, cost=price(usage, self.prices), **tokens))

    def _book(self, stage: str, added: Entry) -> None:
        self.entries[stage] = self.entries.get(stage, Entry()) + added
        write_json(self.file, self._dump())

    def _dump(self) -> dict[str, Any]:
        stages = {stage: entry.model_dump() for stage, entry in self.entries.items()}
        prices = self.prices.model_dump() if self.prices else None
        return {"prices": prices, "stages": stages, "total": self.total.model_dump()}


def read_entries(file: Path) -> dict[str, Entry]:
    """What is booked so far, by stage. Raises UsageError where the file is damaged."""
    try:
        return {stage: Entry.model_validate(entry) for stage, entry in read_json(file)["stages"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(f"{file} is damaged: put back a copy of it, or move it away to count from nothing") from None


def price(usage: Usage, prices: PricesConfig | None) -> float:
    """What one answer costs; 0 without prices."""
    if prices is None:
        return 0.0
    cached_price = prices.input if prices.cached_input is None else prices.cached_input
    fresh = usage.input_tokens - usage.cached_tokens
    return (fresh * prices.input + usage.cached_tokens * cached_price + usage.output_tokens * prices.output) / MILLION
