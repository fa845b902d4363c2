"""The whole vocabulary of the program: Task → Turn* → Trajectory → Group → Sample → MicroBatch.

Records are frozen, and so are their arrays. Arrays that belong together are declared parallel and checked once, at
construction; whatever reads as an array of the right type is taken for one, and not copied where it is one already.
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

PYTEST = (
    "python -m pytest -q -rA --tb=no --no-fold-skipped --color=no -p no:cacheprovider --continue-on-collection-errors"
)
"""Runs every test file that can be read and lists every test with its status; nothing else, and nothing on disk."""

KERNELS = {"proc", "sys", "dev"}
"""Folders of the root that the kernel fills; nothing can stand in them."""
SYSTEM = {"bin", "etc", "lib", "lib64", "sbin", "usr", "var"}
"""Folders of the root that a tree must not take the place of."""


def to_array(values: Any, dtype: type[np.generic]) -> np.ndarray:
    """A read-only array of one dimension; a view where `values` are such an array already. Raises ValueError."""
    array = np.asarray(values, dtype=dtype).view()
    if array.ndim != 1:
        raise ValueError(f"{array.ndim} dimensions where there must be one")
    array.flags.writeable = False
    return array


TokenIds = Annotated[np.ndarray, BeforeValidator(lambda values: to_array(values, np.int32))]
Flags = Annotated[np.ndarray, BeforeValidator(lambda values: to_array(values, np.bool_))]
Floats = Annotated[np.ndarray, BeforeValidator(lambda values: to_array(values, np.float32))]


class Record(BaseModel):
    """A frozen record that reads and writes JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Task(Record):
    """One problem: a repository at a commit, what is wrong with it, and the tests that decide.

    Columns are spelled as in SWE-bench; the rest is what a row must carry so that no per-repository table is needed.
    Columns that we do not know are kept.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    instance_id: str = Field(min_length=1)
    """Unique name of the task."""
    repo: str
    """Name of the repository."""
    base_commit: str
    """Commit that the agent starts from."""
    problem_statement: str
    """The issue, the only thing that the agent is told."""
    FAIL_TO_PASS: list[str]
    """Test ids that fail at the base commit and must pass after the fix."""
    PASS_TO_PASS: list[str]
    """Test ids that pass at the base commit and must still pass."""
    patch: str
    """The gold patch; never shown to the agent."""
    test_patch: str = ""
    """Patch that adds the hidden tests at grading time; empty where the tests are in the repository."""
    layers: list[str] = []
    """Directories, lowest first, that stacked make the working tree at `base_commit`; relative to the task file.

    Empty where the image holds the tree.
    """
    workdir: str = "/testbed"
    """Where the working tree appears inside the sandbox."""
    image: str = ""
    """Image of the system around the working tree, which lies over what the image holds there; read by containers only."""
    setup: list[str] = []
    """Commands run once in a new sandbox before the agent or the tests."""
    test_command: str = PYTEST
    """Command that runs the tests; `test_files` are appended."""
    test_files: list[str] = []
    """Files, ids or labels that the command gets; empty for the files that the ids of the expected tests begin with, if any."""
    log_parser: str = "pytest"
    """Name of the parser that reads the log of `test_command`."""
    status_rules: Literal["strict", "swe-bench"] = "strict"
    """Which ends of expected tests count: passes alone, or also expected failures, and skips of PASS_TO_PASS, as in SWE-bench."""
    created_by: str = ""
    """What made the task, for provenance: kind of repository, kind of bug, seed."""
    meta: dict[str, Any] = {}
    """Facts of the maker: kind, mutator, seed, difficulty."""

    @field_validator("workdir")
    @classmethod
    def _place_for_a_tree(cls, value: str) -> str:
        steps = [step for step in value.split("/") if step not in ("", ".")]
        if not value.startswith("/") or not steps:
            raise ValueError(f"{value!r} is no absolute path below /")
        if ".." in steps or "\0" in value:
            raise ValueError(f"{value!r} is no plain path: leave out '..' and the byte 0")
        if steps[0] in KERNELS or (steps[0] in SYSTEM and len(steps) == 1):
            raise ValueError(f"{value!r} is a place of the system: give one of the tree's own, as /testbed")
        return value

    @field_validator("test_command")
    @classmethod
    def _something_to_run(cls, value: str) -> str:
        if not value.strip() or "\0" in value:
            raise ValueError(f"{value[:40]!r} is no command: give one that runs the tests, or leave the column out")
        return value

    @model_validator(mode="after")
    def _a_tree(self) -> "Task":
        if not self.layers and not self.image:
            raise ValueError(
                "layers is empty and image, too: give the folders of the working tree, or the image that holds it"
            )
        return self

    @field_validator("FAIL_TO_PASS", "PASS_TO_PASS", "test_files", mode="before")
    @classmethod
    def _accept_json_strings(cls, value: Any) -> Any:
        """Classic SWE-bench keeps test lists as JSON strings."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(f"{value[:40]!r} is no list, and no JSON of one") from None


class StopReason(StrEnum):
    """Why a rollout ended. The value is also the metric key."""

    RUNNING = "running"
    """It has not."""
    SUBMITTED = "submitted"
    """The agent called `submit`."""
    MAX_TURNS = "max_turns"
    """The turn limit was reached without a submit."""
    CONTEXT_FULL = "context_full"
    """The next turn would not fit into the context."""
    TIMEOUT = "timeout"
    """The agent's own commands used up the wall clock of the episode."""
    FORMAT_ERROR = "format_error"
    """Too many malformed turns in a row."""
    SANDBOX_FAILED = "sandbox_failed"
    """The sandbox failed; not the agent's doing."""
    ENGINE_FAILED = "engine_failed"
    """The engine failed; not the agent's doing."""


class Outcome(StrEnum):
    """How a trajectory is judged. One row of `OUTCOMES` says what follows from it."""

    UNGRADED = "ungraded"
    """There is no verdict yet."""
    RESOLVED = "resolved"
    """All FAIL_TO_PASS and PASS_TO_PASS tests pass on the patch."""
    UNRESOLVED = "unresolved"
    """A patch was graded and at least one expected test did not pass."""
    EMPTY_PATCH = "empty_patch"
    """The agent changed nothing, or nothing that reaches the tests."""
    PATCH_INVALID = "patch_invalid"
    """The patch does not apply or breaks the patch policy."""
    TESTS_TIMED_OUT = "tests_timed_out"
    """The tests on the patch ran out of time; the policy's doing, since the gold patch fits."""
    TAMPERED = "tampered"
    """The report of the tests lied: a test of the grader's own ended otherwise than it must, or channels disagree."""
    NOT_SUBMITTED = "not_submitted"
    """Ended by a limit where only submitted work counts."""
    SANDBOX_FAILED = "sandbox_failed"
    """The sandbox of the rollout failed."""
    ENGINE_FAILED = "engine_failed"
    """The engine failed."""
    GRADER_FAILED = "grader_failed"
    """The grader itself failed."""


@dataclass(frozen=True)
class OutcomeRule:
    """What follows from an outcome."""

    in_loss: bool
    """Do its tokens train?"""
    in_group: bool
    """Does its reward count in the group's mean and standard deviation?"""
    retried: bool
    """Is the rollout tried again, within the retry budget?"""
    in_evaluation: bool
    """Does it count as an attempt in Pass@1?"""


_AGENT = OutcomeRule(in_loss=True, in_group=True, retried=False, in_evaluation=True)
_INFRASTRUCTURE = OutcomeRule(in_loss=False, in_group=False, retried=True, in_evaluation=False)

OUTCOMES: dict[Outcome, OutcomeRule] = {
    Outcome.UNGRADED: _INFRASTRUCTURE,
    Outcome.RESOLVED: _AGENT,
    Outcome.UNRESOLVED: _AGENT,
    Outcome.EMPTY_PATCH: _AGENT,
    Outcome.PATCH_INVALID: _AGENT,
    Outcome.TESTS_TIMED_OUT: _AGENT,
    Outcome.TAMPERED: _AGENT,
    Outcome.NOT_SUBMITTED: _AGENT,
    Outcome.SANDBOX_FAILED: _INFRASTRUCTURE,
    Outcome.ENGINE_FAILED: _INFRASTRUCTURE,
    Outcome.GRADER_FAILED: _INFRASTRUCTURE,
}
"""The one table from ending to loss: what the agent caused scores and trains, what the infrastructure caused leaves no trace."""


class Isolation(StrEnum):
    """What keeps a sandbox in, the weakest tier first, and who one would be on the host who broke out of it."""

    NONE = "none"
    """Nothing: ordinary processes of the user who runs us, as any other program of his."""
    CONTAINER_ROOT = "container-root"
    """A container of an engine whose root is the host's: who breaks out may be root."""
    CONTAINER_USER = "container-user"
    """A container of an engine with users of its own: who breaks out is the engine's ordinary user, or owns nothing."""
    NAMESPACES_USER = "namespaces-user"
    """Our namespaces, no network, a filter of system calls: who breaks out is the ordinary user who runs us."""
    NAMESPACES_ROOT = "namespaces-root"
    """The same, set up by root: who breaks out is a user who owns nothing."""

    def is_weaker_than(self, other: "Isolation") -> bool:
        tiers = list(Isolation)
        return tiers.index(self) < tiers.index(other)


class Turn(Record):
    """One model message and the observation that answered it."""

    start: int
    """Index in the trajectory's `token_ids` of the first sampled token of this turn."""
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
    generate_s: float = 0.0
    """Seconds spent sampling."""
    act_s: float = 0.0
    """Seconds spent in the sandbox."""


class Audit(Record):
    """What came of looking for lies in a patch that resolves its task."""

    verdict: Literal["honest", "convicted", "inconclusive"]
    reason: str = ""
    """The lie, or why nothing can be said for certain; empty where the patch is honest."""
    num_renamed: int = 0
    """Expected test functions that were run under random names."""
    num_mutants: int = 0
    """Mutants of expected tests that the gold patch kills."""
    num_killed: int = 0
    """Of those, how many the patch kills: all, where it is honest."""
    duration_s: float = 0.0


class Grade(Record):
    """The verdict of the tests on one patch."""

    outcome: Outcome
    """RESOLVED, UNRESOLVED, EMPTY_PATCH, PATCH_INVALID, TESTS_TIMED_OUT, TAMPERED, or GRADER_FAILED."""
    statuses: dict[str, str] = {}
    """Status of each expected test: `passed`, `failed`, `error`, `skipped`, `missing`."""
    duration_s: float = 0.0
    """Seconds that the grading took."""
    shared: bool = False
    """True where the verdict of an identical patch of the same task was used again."""
    isolation: str = ""
    """Tier of `Isolation` of the sandbox in which the tests ran."""
    flags: list[str] = []
    """Exploit contact: what of the patch was left out or seen to reach for the grader, e.g. `test-infrastructure`, `sentinel`."""
    detail: str = ""
    """One line for people: which tests failed, or what broke."""
    audit: Audit | None = None
    """None where the patch was not audited."""

    @property
    def resolved(self) -> bool:
        return self.outcome is Outcome.RESOLVED


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

    @property
    def instance_id(self) -> str:
        return self.trajectories[0].instance_id


@dataclass(frozen=True, eq=False)
class Sample:
    """One trainable sequence. All arrays share the length of `token_ids`.

    Position t of the others speaks of the token at t, predicted from the tokens before it. No column is ever written over:
    who scores the tokens adds a column, by `dataclasses.replace`.
    """

    trajectory_id: str
    group_id: str
    token_ids: np.ndarray
    """int32."""
    loss_mask: np.ndarray
    """bool; true on tokens that train."""
    sampled_logprobs: np.ndarray
    """float32, under the policy that sampled, by the engine; 0 outside of what was sampled."""
    advantages: np.ndarray
    """float32, what each token's gradient is weighed by; 0 teaches nothing."""
    old_logprobs: np.ndarray | None = None
    """float32, under the policy before the update, by the trainer."""
    ref_logprobs: np.ndarray | None = None
    """float32, under a reference policy, where an algorithm asks for them."""
    values: np.ndarray | None = None
    """float32, of a critic, where an algorithm asks for them."""

    def __post_init__(self) -> None:
        self._set("token_ids", to_array(self.token_ids, np.int32))
        self._set("loss_mask", to_array(self.loss_mask, np.bool_))
        for name in ("sampled_logprobs", "advantages", "old_logprobs", "ref_logprobs", "values"):
            if getattr(self, name) is not None:
                self._set(name, to_array(getattr(self, name), np.float32))
        check_parallel(f"sample {self.trajectory_id}", *self.columns().values())
        if len(self) and self.loss_mask[0]:
            raise ValueError(f"sample {self.trajectory_id}: the first token has no context to be predicted from")

    def _set(self, name: str, array: np.ndarray) -> None:
        object.__setattr__(self, name, array)

    def columns(self) -> dict[str, np.ndarray]:
        """All arrays that it has, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def num_loss_tokens(self) -> int:
        return int(np.count_nonzero(self.loss_mask))


def check_parallel(name: str, *arrays: np.ndarray) -> None:
    """Raise ValueError where arrays differ in length."""
    lengths = {len(array) for array in arrays}
    if len(lengths) != 1:
        raise ValueError(f"{name}: arrays of different lengths {sorted(lengths)}")


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """Samples packed end to end, no padding; what one forward pass sees."""

    samples: list[Sample] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        return sum(len(sample) for sample in self.samples)

    @property
    def num_loss_tokens(self) -> int:
        return sum(sample.num_loss_tokens for sample in self.samples)


@dataclass(frozen=True)
class SamplingParams:
    """How to sample. Anything but the policy's own distribution makes the importance ratio invalid (paper §5.2)."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "token_ids", to_array(self.token_ids, np.int32))
        object.__setattr__(self, "logprobs", to_array(self.logprobs, np.float32))
        check_parallel("completion", self.token_ids, self.logprobs)


@dataclass(frozen=True)
class ExecResult:
    """What a command in a sandbox left."""

    exit_code: int
    """Exit code; 128 + signal where a signal ended it."""
    output: bytes
    """Standard output and error, in the order written, cut at the sandbox's output limit."""
    duration_s: float
    timed_out: bool = False
    truncated: bool = False
    """True where output beyond the limit was dropped."""
    report: bytes = b""
    """What it wrote to the descriptor for reports, at most 16 MiB."""
    is_warm: bool = False
    """True where pytest ran in a fork of a process that had imported it."""
    cwd: str = ""
    """Working directory in which the command ended, for shells that `cd`."""
