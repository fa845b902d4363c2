"""Sampling requests and answers, turns, trajectories and groups."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from turnsmith.types.conversations import Message
from turnsmith.types.outcomes import Grade, Outcome, StopReason
from turnsmith.types.records import Flags, Floats, Record, TokenIds, check_parallel, to_array


class SamplingParams(Record):
    """Sampling settings. The defaults sample from the policy itself, as training requires (arXiv 2508.03501, §5.2)."""

    temperature: float = Field(1.0, ge=0)
    """Divisor of the logits; 0 takes the most likely token."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Draw from the smallest set of most likely tokens with at least this total probability."""
    top_k: int = Field(0, ge=0)
    """Draw from the `top_k` most likely tokens; 0 draws from all tokens."""
    min_p: float = Field(0.0, ge=0, lt=1)
    """Draw from tokens with at least this fraction of the highest probability."""
    repetition_penalty: float = Field(1.0, gt=0)
    """Penalty on tokens that the history contains; 1 disables it."""

    @property
    def is_policy(self) -> bool:
        """True if samples come from the policy itself: temperature 1 and all filters off."""
        return self == SamplingParams()


@dataclass(frozen=True, eq=False)
class Completion:
    """Tokens sampled for one turn, stop token included; arrays are parallel."""

    token_ids: np.ndarray
    """Ids of the sampled tokens, int32."""
    logprobs: np.ndarray
    """Log-prob of each sampled token, float32."""
    finish_reason: str
    """`stop` after a stop token, `length` at the token limit."""
    policy_version: int
    digest: str = ""
    """Digest of the turn (`types.links`), which `engines.base.complete` computes; if empty, training refuses the turn."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", to_array(self.token_ids, np.int32))
        object.__setattr__(self, "logprobs", to_array(self.logprobs, np.float32))
        check_parallel("completion", self.token_ids, self.logprobs)


class Turn(Record):
    """One model message and the observation after it."""

    start: int
    """Index of the turn's first token in the trajectory; if `form` is `messages`, computed from token counts of the server."""
    end: int
    """Index after the turn's last sampled token in the trajectory."""
    text: str
    """Sampled tokens as text, for people; it is never tokenised again."""
    command: str | None = None
    """Command parsed from the text; None after a format error."""
    format_error: str | None = None
    """Name of the format error: `no_command` or `multiple_commands`."""
    observation: str = ""
    exit_code: int | None = None
    """Exit code of the command; None if no command ran."""
    finish_reason: str = "stop"
    """`stop` at the end of a turn, or `length` at the token limit."""
    trains: bool = True
    """False if fine-tuning on messages must not imitate the turn, e.g. a mistake that the next turns repair."""
    policy_version: int = 0
    """Number of weight updates before the turn was sampled."""
    digest: str = ""
    """Digest of the turn's tokens and history (`types.links`), computed by the engine; empty if it computed none."""
    generate_s: float = 0.0
    act_s: float = 0.0
    """Seconds spent in the sandbox."""


class Trajectory(Record):
    """Record of one rollout, extended by the episode (tokens, turns) and the grader (verdict).

    `token_ids`, `sampled` and `logprobs` are parallel. For example a prompt of three tokens and a sampled turn of two:
    `token_ids=[5, 6, 7, 8, 2]`, `sampled=[False, False, False, True, True]`, `logprobs=[0.0, 0.0, 0.0, -1.2, -0.1]`.
    The JSON leaves out the three arrays, which `runs.journal` stores separately.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    trajectory_id: str
    """Name unique inside a run, e.g. `rl1-0003/practice-12/5`."""
    group_id: str
    """Name of the group, which all rollouts of the task in one iteration share, e.g. `rl1-0003/practice-12`."""
    index: int
    """Number of the rollout in its group, from 0; in an evaluation, the number of the run of the task, from 0."""
    instance_id: str
    iteration: int
    seed: int
    token_ids: TokenIds = Field(np.empty(0, np.int32), exclude=True, validate_default=True)
    """Token ids of the whole dialogue, int32."""
    sampled: Flags = Field(np.empty(0, np.bool_), exclude=True, validate_default=True)
    """True on tokens that the policy sampled, bool."""
    logprobs: Floats = Field(np.empty(0, np.float32), exclude=True, validate_default=True)
    """Log-probability of each sampled token under the policy (temperature 1, no filters), float32; 0 elsewhere."""
    form: Literal["tokens", "messages"] = "tokens"
    """`messages` if an endpoint sampled text without tokens; such a trajectory cannot be used for RL."""
    prompt: list[Message] = []
    """System and user messages before the first turn; empty if `form` is `tokens`."""
    turns: list[Turn] = []
    stop_reason: StopReason = StopReason.RUNNING
    outcome: Outcome = Outcome.UNGRADED
    patch: str = ""
    """Changes to the working tree as a git patch, computed outside the sandbox."""
    grade: Grade | None = None
    isolation: str = ""
    """`Isolation` tier of the rollout's sandbox."""
    prompt_tokens: int = 0
    """Number of tokens of the prompt before the first turn."""
    duration_s: float = 0.0
    detail: str = ""
    """One line for people, e.g. the infrastructure fault that ended the rollout."""

    @model_validator(mode="after")
    def _check_parallel(self) -> "Trajectory":
        check_parallel(f"trajectory {self.trajectory_id}", self.token_ids, self.sampled, self.logprobs)
        return self

    def grow(self, **fields: Any) -> "Trajectory":
        """Return a copy with the given fields replaced, without validation."""
        return self.model_copy(update=fields)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Trajectory)
            and self.model_dump() == other.model_dump()
            and all(map(np.array_equal, self.arrays().values(), other.arrays().values()))
        )

    __hash__ = None  # type: ignore[assignment]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays, which the trajectory's JSON leaves out."""
        return {"token_ids": self.token_ids, "sampled": self.sampled, "logprobs": self.logprobs}

    @property
    def resolved(self) -> bool:
        return self.outcome is Outcome.RESOLVED

    @property
    def num_turns(self) -> int:
        return len(self.turns)

    @property
    def num_tokens(self) -> int:
        """Number of tokens; if `form` is `messages`, as counted by the server."""
        return len(self.token_ids) if self.form == "tokens" else self.turns[-1].end if self.turns else 0

    @property
    def num_sampled(self) -> int:
        return sum(turn.end - turn.start for turn in self.turns)

    @property
    def policy_version(self) -> int:
        """Policy version of the last turn; 0 without turns."""
        return self.turns[-1].policy_version if self.turns else 0


class Group(Record):
    """Trajectories of one task in one iteration, and the final reward of each."""

    group_id: str
    trajectories: list[Trajectory]
    rewards: list[float]
    """Final reward of each trajectory: 1 if resolved, else 0, plus length penalty (R_final in arXiv 2508.03501, §3.2)."""

    @model_validator(mode="after")
    def _check_parallel(self) -> "Group":
        if len(self.trajectories) != len(self.rewards):
            raise ValueError("a group needs one reward per trajectory")
        return self
