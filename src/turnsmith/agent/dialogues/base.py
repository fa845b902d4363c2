"""Interface of dialogues, by which an episode's loop talks to the policy in tokens or messages."""

import hashlib
from typing import Any, Protocol

from turnsmith.config import AgentConfig
from turnsmith.types import SamplingParams, Trajectory, Turn


class Dialogue(Protocol):
    """Dialogue of one episode with the policy, to which messages are only appended."""

    @property
    def is_full(self) -> bool:
        """Return True if the dialogue fills the policy's context."""

    def begin(self, system: str, issue: str) -> None:
        """Start the dialogue with a system message and a user message, the issue."""

    async def sample(self) -> Turn:
        """Sample the policy's next turn and append it. Raises EngineError."""

    def cut(self, observation: str) -> str:
        """Truncate an observation to the configured number of tokens."""

    def observe(self, observation: str) -> bool:
        """Append an observation, or return False if no turn would fit into the context after it."""

    def columns(self) -> dict[str, Any]:
        """Return the trajectory's fields that the dialogue provides, such as token ids."""

    def close(self) -> None:
        """Release the dialogue's resources at the end of the episode."""


class DialogueFactory(Protocol):
    """Factory of dialogues for the episodes of a run."""

    def open(self, begun: Trajectory, config: AgentConfig, decoding: SamplingParams | None = None) -> Dialogue:
        """Open an episode's dialogue; the trajectory `begun` has no turns yet. `decoding` None: temperature 1, no filters."""

    def count_prompt(self, system: str, issue: str) -> int:
        """Count the tokens of the first prompt with these messages."""

    def check_budget(self, max_tokens: int) -> None:
        """Raise UsageError if `max_tokens` is too small for the notice that marks a truncated observation."""

    def status(self) -> str:
        """Return a short text for the progress output, such as the cost so far; empty if there is nothing to show."""


def turn_seed(seed: int, turn: int) -> int:
    """Derive the random seed (63 bits) of one turn from the episode's seed."""
    digest = hashlib.sha256(f"{seed}/{turn}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
