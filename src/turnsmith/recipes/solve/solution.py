"""What working on an issue left: the attempts, which of them is kept and why, and the patch of that one."""

from collections.abc import Sequence

from pydantic import ValidationError

from turnsmith.errors import UsageError, first_fault
from turnsmith.git.patch_policy import PatchRefused, read_patch
from turnsmith.recipes.solve.given_tests import TestRun
from turnsmith.runs.folder import RunFolder, read_json, replacing, write_json
from turnsmith.runs.journal import read_trajectories
from turnsmith.types import Record, StopReason, Trajectory

STAGE, TASK_SET = "solve", "checkout"
"""Under which the attempts lie in the run folder."""


class Attempt(Record):
    """One of them."""

    trajectory_id: str
    stop_reason: str
    num_turns: int
    patch_bytes: int
    tests: TestRun | None = None
    """None where no tests were given, or they were not run."""
    detail: str = ""


class Solution(Record):
    """What came of all of them."""

    kept: str = ""
    """Id of the trajectory whose patch is kept; empty where no attempt has left one."""
    why: str = ""
    patch: str = ""
    """File that holds it."""
    test_command: str = ""
    verified: bool = False
    """True where the given tests passed on the patch."""
    attempts: tuple[Attempt, ...] = ()

    @property
    def is_success(self) -> bool:
        """Was a patch left, and did it pass, if tests were given?"""
        return bool(self.kept) and (self.verified or not self.test_command)


def conclude(folder: RunFolder, test_command: str) -> Solution:
    """Choose among the attempts that the folder holds, write the patch and the record."""
    trajectories = list(read_trajectories(folder.eval_trajectories(STAGE, TASK_SET)))
    attempts = [describe_attempt(trajectory, read_tests(folder, trajectory)) for trajectory in trajectories]
    solution = Solution(test_command=test_command, attempts=tuple(attempts))
    if kept := choose(attempts):
        patch = next(each.patch for each in trajectories if each.trajectory_id == kept.trajectory_id)
        with replacing(folder.patch) as temporary:
            temporary.write_bytes(patch.encode(errors="surrogateescape"))
        verified = bool(kept.tests and kept.tests.passed)
        why = explain_choice(kept, len(attempts), is_tested=bool(test_command))
        facts = {"kept": kept.trajectory_id, "why": why, "patch": str(folder.patch), "verified": verified}
        solution = solution.model_copy(update=facts)
    write_json(folder.solution, solution.model_dump(mode="json"))
    return solution


def choose(attempts: Sequence[Attempt]) -> Attempt | None:
    """The first whose tests passed; else one that was submitted before one that was not, then the smallest patch.

    One that changed nothing is never chosen.
    """
    candidates = [attempt for attempt in attempts if attempt.patch_bytes]
    return min(candidates, key=rank, default=None)


def rank(attempt: Attempt) -> tuple[bool, bool, int]:
    """The lower the better; of passing ones, which come in the order in which they ended, the first."""
    passed = bool(attempt.tests and attempt.tests.passed)
    return not passed, not passed and attempt.stop_reason != StopReason.SUBMITTED, 0 if passed else attempt.patch_bytes


def explain_choice(kept: Attempt, num: int, *, is_tested: bool) -> str:
    """What speaks for it, in a line."""
    if kept.tests and kept.tests.passed:
        return "the given tests pass on it"
    ending = kept.detail if kept.stop_reason == StopReason.STOPPED else kept.stop_reason
    submitted = "submitted" if kept.stop_reason == StopReason.SUBMITTED else f"not submitted ({ending})"
    among = f", of {num} attempts the smallest patch among the most finished" if num > 1 else ""
    verdict = "no attempt passes the given tests" if is_tested else "no tests were given: nothing was verified"
    return f"{submitted}{among}; {verdict}"


def describe_attempt(trajectory: Trajectory, tests: TestRun | None) -> Attempt:
    """What counts of it; a patch that is refused counts as none."""
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
    """Why a patch is none that anybody should apply, such as one that leads out of the tree; empty where it is one."""
    try:
        read_patch(patch)
    except PatchRefused as refused:
        return str(refused)
    return ""


def write_tests(folder: RunFolder, trajectory: Trajectory, run: TestRun) -> None:
    """Keep what the given tests did on the patch of an attempt."""
    write_json(folder.attempt_tests(trajectory.index), run.model_dump(mode="json"))


def read_tests(folder: RunFolder, trajectory: Trajectory) -> TestRun | None:
    """None where they were not run."""
    file = folder.attempt_tests(trajectory.index)
    return TestRun.model_validate(read_json(file)) if file.exists() else None


def read_solution(folder: RunFolder) -> Solution:
    """Raises UsageError where there is none, or it is damaged."""
    try:
        return Solution.model_validate(read_json(folder.solution))
    except ValidationError as error:
        raise UsageError(f"{folder.solution} is damaged ({first_fault(error)}): give the command again") from None
