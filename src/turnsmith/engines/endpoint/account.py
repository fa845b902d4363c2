"""Account of an endpoint's tokens and cost by stage of a run, in a file that is updated after each answer.

Requests that a resumed run repeats are recorded again, since they cost again.
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
    """Requests, tokens and cost of one stage of a run."""

    requests: int = Field(0, ge=0)
    """Number of requests sent to the endpoint."""
    answered: int = Field(0, ge=0)
    """Number of requests with an answer. Token counts and cost are those of these answers."""
    refused: int = Field(0, ge=0)
    """Number of requests that the server refused (e.g. HTTP 429 or 500) and that cost nothing."""
    unanswered: int = Field(0, ge=0)
    """Number of requests whose answer was lost or late; the server may have charged for them."""
    estimated: int = Field(0, ge=0)
    """Number of answers without valid token counts, for which the counts are estimated from bytes."""
    input_tokens: int = Field(0, ge=0)
    cached_tokens: int = Field(0, ge=0)
    """Number of input tokens that the server had cached."""
    output_tokens: int = Field(0, ge=0)
    cost: float = Field(0.0, ge=0)
    """Cost in the currency of the prices configured when each request was sent; 0 without prices."""

    def __add__(self, other: "Entry") -> "Entry":
        return Entry(**{name: value + getattr(other, name) for name, value in self})


class Usage(BaseModel):
    """Token counts of one answer of the endpoint."""

    input_tokens: int
    cached_tokens: int = 0
    output_tokens: int
    is_estimated: bool = False


@dataclass
class Account:
    """Account of a run's requests to an endpoint, kept in a file."""

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
    """Read an account file: stage → requests, tokens and cost. Raises UsageError if the file is damaged."""
    try:
        return {stage: Entry.model_validate(entry) for stage, entry in read_json(file)["stages"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(
            f"the cost account {file} is damaged: restore a copy, or move it away to count from zero"
        ) from None


def price(usage: Usage, prices: PricesConfig | None) -> float:
    """Compute the cost of one answer from its token counts; 0 without prices."""
    if prices is None:
        return 0.0
    cached_price = prices.input if prices.cached_input is None else prices.cached_input
    fresh = usage.input_tokens - usage.cached_tokens
    return (fresh * prices.input + usage.cached_tokens * cached_price + usage.output_tokens * prices.output) / MILLION
