"""Solution of an issue: all attempts, the attempt that is kept, the reason of the choice, and the patch."""

from collections.abc import Sequence

from pydantic import ValidationError

from turnsmith.errors import UsageError, first_fault
from turnsmith.git.patch_policy import PatchRefused, read_patch
from turnsmith.io.files import write_file
from turnsmith.recipes.solve.given_tests import TestRun
from turnsmith.runs.folder import RunFolder, read_json, write_json
from turnsmith.runs.journal import read_trajectories
from turnsmith.types import Record, StopReason, Trajectory

STAGE, TASK_SET = "solve", "checkout"
"""Names of the folders below `evals/` that hold the attempts of `turnsmith solve`."""


class Attempt(Record):
    """Summary of one attempt of `turnsmith solve`."""

    trajectory_id: str
    stop_reason: str
    num_turns: int
    patch_bytes: int
    tests: TestRun | None = None
    """Result of the user's tests on the attempt's patch; None if they were not given or not run."""
    detail: str = ""


class Solution(Record):
    """All attempts of `turnsmith solve`, and the attempt whose patch is kept."""

    kept: str = ""
    """Id of the trajectory whose patch is kept; empty if no attempt has a patch."""
    why: str = ""
    patch: str = ""
    """Path of the file with the kept patch."""
    test_command: str = ""
    verified: bool = False
    """True if the user's tests passed on the kept patch."""
    attempts: tuple[Attempt, ...] = ()

    @property
    def is_success(self) -> bool:
        """Return True if a patch was kept and, if a test command was given, its tests passed on the patch."""
        return bool(self.kept) and (self.verified or not self.test_command)


def conclude(folder: RunFolder, test_command: str) -> Solution:
    """Choose the best attempt in a run folder, and write its patch and `solution.json`."""
    trajectories = list(read_trajectories(folder.eval_trajectories(STAGE, TASK_SET)))
    attempts = [describe_attempt(trajectory, read_tests(folder, trajectory)) for trajectory in trajectories]
    solution = Solution(test_command=test_command, attempts=tuple(attempts))
    if kept := choose(attempts):
        patch = next(each.patch for each in trajectories if each.trajectory_id == kept.trajectory_id)
        write_file(folder.patch, patch.encode(errors="surrogateescape"))
        verified = bool(kept.tests and kept.tests.passed)
        why = explain_choice(kept, len(attempts), is_tested=bool(test_command))
        facts = {"kept": kept.trajectory_id, "why": why, "patch": str(folder.patch), "verified": verified}
        solution = solution.model_copy(update=facts)
    write_json(folder.solution, solution.model_dump(mode="json"))
    return solution


def choose(attempts: Sequence[Attempt]) -> Attempt | None:
    """Choose the first attempt whose tests passed, else the smallest submitted patch, else the smallest patch.

    Attempts with an empty patch are never chosen.
    """
    candidates = [attempt for attempt in attempts if attempt.patch_bytes]
    return min(candidates, key=rank, default=None)


def rank(attempt: Attempt) -> tuple[bool, bool, int]:
    """Return the sort key of an attempt; the smallest key is best. All attempts whose tests passed have the same key."""
    passed = bool(attempt.tests and attempt.tests.passed)
    return not passed, not passed and attempt.stop_reason != StopReason.SUBMITTED, 0 if passed else attempt.patch_bytes


def explain_choice(kept: Attempt, num: int, *, is_tested: bool) -> str:
    """Explain in one line why an attempt was chosen from `num` attempts."""
    if kept.tests and kept.tests.passed:
        return "the given tests pass on it"
    ending = kept.detail if kept.stop_reason == StopReason.STOPPED else kept.stop_reason
    submitted = "submitted" if kept.stop_reason == StopReason.SUBMITTED else f"not submitted ({ending})"
    among = f", the smallest patch of {num} attempts, submitted ones first" if num > 1 else ""
    verdict = "no attempt passes the given tests" if is_tested else "no tests were given: nothing was verified"
    return f"{submitted}{among}; {verdict}"


def describe_attempt(trajectory: Trajectory, tests: TestRun | None) -> Attempt:
    """Summarise an attempt; a refused patch counts as empty."""
    refusal = find_refusal(trajectory.patch)
    return Attempt(
        trajectory_id=trajectory.trajectory_id,
        stop_reason=trajectory.stop_reason,
        num_turns=trajectory.num_turns,
        patch_bytes=0 if refusal else len(trajectory.patch.encode(errors="surrogateescape")),
        tests=tests,
        detail=f"its patch is refused: {refusal}" if refusal else trajectory.detail,
    )


def find_refusal(patch: str) -> str:
    """Return why a patch must not be applied, e.g. a path outside the tree; empty if it may be."""
    try:
        read_patch(patch)
    except PatchRefused as refused:
        return str(refused)
    return ""


def write_tests(folder: RunFolder, trajectory: Trajectory, run: TestRun) -> None:
    write_json(folder.attempt_tests(trajectory.index), run.model_dump(mode="json"))


def read_tests(folder: RunFolder, trajectory: Trajectory) -> TestRun | None:
    """Read the result of the user's tests on an attempt's patch; None if they were not run."""
    file = folder.attempt_tests(trajectory.index)
    return TestRun.model_validate(read_json(file)) if file.exists() else None


def read_solution(folder: RunFolder) -> Solution:
    """Read `solution.json`. Raises UsageError if it is missing or damaged."""
    try:
        return Solution.model_validate(read_json(folder.solution))
    except ValidationError as error:
        raise UsageError(f"{folder.solution} is damaged ({first_fault(error)}): run the command again") from None
