"""Protocols between the episode loop and its dialogue, which holds tokens or messages."""

import hashlib
from typing import Any, Protocol

from turnsmith.config import AgentConfig
from turnsmith.types import SamplingParams, Trajectory, Turn


class Dialogue(Protocol):
    """Append-only dialogue of one episode."""

    @property
    def is_full(self) -> bool:
        """Return True if the context holds no further token."""

    def begin(self, system: str, issue: str) -> None:
        """Start with a system message and a user message."""

    async def sample(self) -> Turn:
        """Sample the next turn and append it. Raises EngineError."""

    def cut(self, observation: str) -> str:
        """Truncate an observation to its token budget."""

    def observe(self, observation: str) -> bool:
        """Append an observation. Return False, without appending, if no turn would fit after it."""

    def columns(self) -> dict[str, Any]:
        """Return the trajectory fields that the dialogue provides."""

    def close(self) -> None:
        """Release resources at the end of the episode."""


class DialogueFactory(Protocol):
    """Factory of dialogues for the episodes of a run."""

    def open(self, begun: Trajectory, config: AgentConfig, decoding: SamplingParams | None = None) -> Dialogue:
        """Open the dialogue of an episode that begins with this record; `decoding` as in `Rollout`."""

    def count_prompt(self, system: str, issue: str) -> int:
        """Count the tokens of a first prompt."""

    def check_budget(self, max_tokens: int) -> None:
        """Raise UsageError if the observation budget cannot hold the truncation notice."""

    def status(self) -> str:
        """Return a short status for progress output, such as the cost; often empty."""


def turn_seed(seed: int, turn: int) -> int:
    """Derive the random seed (63 bits) of one turn from the episode's seed."""
    digest = hashlib.sha256(f"{seed}/{turn}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
