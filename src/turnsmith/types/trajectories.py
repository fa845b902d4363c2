"""What is asked of an engine and what it answers; turn by turn it becomes what rollouts leave."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from turnsmith.types.conversations import Message
from turnsmith.types.outcomes import Grade, Outcome, StopReason
from turnsmith.types.records import Flags, Floats, Record, TokenIds, check_parallel, to_array


class SamplingParams(Record):
    """How to sample. Anything but the policy's own distribution makes the importance ratio invalid (paper §5.2)."""

    temperature: float = Field(1.0, ge=0)
    """Logits are divided by it; 0 takes the likeliest token."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Draw from the fewest likeliest tokens that have this share together."""
    top_k: int = Field(0, ge=0)
    """Draw from so many likeliest tokens; 0: from all."""
    min_p: float = Field(0.0, ge=0, lt=1)
    """Draw from tokens that have at least this share of the likeliest one's."""
    repetition_penalty: float = Field(1.0, gt=0)
    """Weakens tokens that the history holds; 1: none."""

    @property
    def is_policy(self) -> bool:
        """True where samples come from the policy itself: temperature 1 and every filter off."""
        return self == SamplingParams()


@dataclass(frozen=True, eq=False)
class Completion:
    """What the engine sampled for one turn, the stop token included; the arrays are parallel."""

    token_ids: np.ndarray
    """int32."""
    logprobs: np.ndarray
    """float32."""
    finish_reason: str
    """`stop` after a stop token, `length` at the token limit."""
    policy_version: int
    digest: str = ""
    """What proves it to be sampled (`types.links`); `engines.base.complete` makes it. Empty: this may not train."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", to_array(self.token_ids, np.int32))
        object.__setattr__(self, "logprobs", to_array(self.logprobs, np.float32))
        check_parallel("completion", self.token_ids, self.logprobs)


class Turn(Record):
    """One model message and the observation that answered it."""

    start: int
    """Index in the trajectory's `token_ids` of the first sampled token of this turn; of messages by the server's count."""
    end: int
    """Index one past the last sampled token."""
    text: str
    """The sampled tokens as text, for people; never tokenised again."""
    command: str | None = None
    """The command parsed from the text; None after a format error."""
    format_error: str | None = None
    """Name of the format error: `no_command` or `multiple_commands`."""
    observation: str = ""
    """What answered, as the policy saw it."""
    exit_code: int | None = None
    """Exit code of the command; None where nothing ran."""
    finish_reason: str = "stop"
    """Why sampling ended: `stop` (end of turn) or `length`."""
    policy_version: int = 0
    """Number of weight updates that the policy had seen when it sampled this turn."""
    digest: str = ""
    """The engine's digest of what it sampled; empty where it made none."""
    generate_s: float = 0.0
    """Seconds spent sampling."""
    act_s: float = 0.0
    """Seconds spent in the sandbox."""


class Trajectory(Record):
    """The record of one rollout. It begins as names and a seed; the episode adds tokens and turns, the grader a verdict.

    `token_ids`, `sampled` and `logprobs` are parallel. For example a prompt of three tokens and a sampled turn of two:
    `token_ids=[5, 6, 7, 8, 2]`, `sampled=[False, False, False, True, True]`, `logprobs=[0.0, 0.0, 0.0, -1.2, -0.1]`.
    The three are no part of its JSON: `journals` keeps them beside it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    trajectory_id: str
    """Unique inside a run, e.g. `rl1-0003/practice-12/5`."""
    group_id: str
    """What its siblings share, e.g. `rl1-0003/practice-12`."""
    index: int
    """Its place among its siblings; in an evaluation the run that it belongs to."""
    instance_id: str
    iteration: int
    seed: int
    """Seed of the sampling noise of this episode."""
    token_ids: TokenIds = Field(np.empty(0, np.int32), exclude=True, validate_default=True)
    """int32."""
    sampled: Flags = Field(np.empty(0, np.bool_), exclude=True, validate_default=True)
    """True on tokens that the policy sampled."""
    logprobs: Floats = Field(np.empty(0, np.float32), exclude=True, validate_default=True)
    """Log-probability of each sampled token under the sampling policy (temperature 1, no filters), float32; 0 elsewhere."""
    form: Literal["tokens", "messages"] = "tokens"
    """`messages` where an endpoint sampled text: there are no tokens, so nothing trains as it was sampled."""
    prompt: list[Message] = []
    """Of messages: those before the first turn, the system's and the user's."""
    turns: list[Turn] = []
    stop_reason: StopReason = StopReason.RUNNING
    outcome: Outcome = Outcome.UNGRADED
    patch: str = ""
    """The diff of the workspace, taken from outside the sandbox."""
    grade: Grade | None = None
    isolation: str = ""
    """Tier of `Isolation` of the sandbox of the rollout."""
    prompt_tokens: int = 0
    """Length of the first prompt."""
    duration_s: float = 0.0
    detail: str = ""
    """One line for people, e.g. the fault of the infrastructure."""

    @model_validator(mode="after")
    def _check_parallel(self) -> "Trajectory":
        check_parallel(f"trajectory {self.trajectory_id}", self.token_ids, self.sampled, self.logprobs)
        return self

    def grow(self, **facts: Any) -> "Trajectory":
        """The same rollout, further on; what is given is taken as it is."""
        return self.model_copy(update=facts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Trajectory)
            and self.model_dump() == other.model_dump()
            and all(map(np.array_equal, self.arrays().values(), other.arrays().values()))
        )

    __hash__ = None  # type: ignore[assignment]

    def arrays(self) -> dict[str, np.ndarray]:
        """What its JSON leaves out."""
        return {"token_ids": self.token_ids, "sampled": self.sampled, "logprobs": self.logprobs}

    @property
    def resolved(self) -> bool:
        return self.outcome is Outcome.RESOLVED

    @property
    def num_turns(self) -> int:
        return len(self.turns)

    @property
    def num_tokens(self) -> int:
        """Of the whole sequence, or of messages by the server's count."""
        return len(self.token_ids) if self.form == "tokens" else self.turns[-1].end if self.turns else 0

    @property
    def num_sampled(self) -> int:
        """Tokens of its turns."""
        return sum(turn.end - turn.start for turn in self.turns)

    @property
    def policy_version(self) -> int:
        """Of the policy that sampled its last turn; 0 where it has none."""
        return self.turns[-1].policy_version if self.turns else 0


class Group(Record):
    """Sibling trajectories of one task, with their shaped rewards (parallel)."""

    group_id: str
    trajectories: list[Trajectory]
    rewards: list[float]
    """R_final of each trajectory (paper §3.2)."""

    @model_validator(mode="after")
    def _check_parallel(self) -> "Group":
        if len(self.trajectories) != len(self.rewards):
            raise ValueError("one reward per trajectory")
        return self
