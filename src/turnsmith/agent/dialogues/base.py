"""What the loop asks of whatever an episode is said in. The loop does not know whether that is tokens or messages."""

import hashlib
from typing import Any, Protocol

from turnsmith.config import AgentConfig
from turnsmith.types import SamplingParams, Trajectory, Turn


class Dialogue(Protocol):
    """What is said in one episode, from the first prompt on; it only grows."""

    @property
    def is_full(self) -> bool:
        """True where the context holds no further token."""

    def begin(self, system: str, issue: str) -> None:
        """The first prompt: the system message, and the user's."""

    async def sample(self) -> Turn:
        """The next turn, taken down. Raises EngineError."""

    def cut(self, observation: str) -> str:
        """An observation as it will be shown, within its budget."""

    def observe(self, observation: str) -> bool:
        """Add what answered the last turn; False, and nothing added, where no turn would fit after it."""

    def columns(self) -> dict[str, Any]:
        """What a trajectory keeps of it, by the names of its fields."""

    def close(self) -> None:
        """The episode is over."""


class Speaker(Protocol):
    """Opens a dialogue for each episode of a run."""

    def open(self, begun: Trajectory, config: AgentConfig, decoding: SamplingParams | None = None) -> Dialogue:
        """For the episode that begins with this record; `decoding` as in `Rollout`."""

    def count_prompt(self, system: str, issue: str) -> int:
        """Tokens of a first prompt."""

    def check_budget(self, max_tokens: int) -> None:
        """Raise UsageError where a budget of observations cannot hold even the notice of a cut."""

    def remark(self) -> str:
        """What a watcher of the run should know now and then, such as what it has cost; often nothing."""


def turn_seed(seed: int, turn: int) -> int:
    """Seed of one turn's noise, from the seed of the episode; 63 bits."""
    digest = hashlib.sha256(f"{seed}/{turn}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
