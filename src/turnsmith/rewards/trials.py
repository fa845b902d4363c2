"""Trials of a patch: the expected tests with sentinels among them, then the same tests in a mirror."""

import io
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from turnsmith.errors import GradingError
from turnsmith.rewards.judging import judge
from turnsmith.rewards.mirror import NO_MIRROR, Ends, Mirror, Reflected, choose_tests, make_mirror
from turnsmith.rewards.preparing import prepare
from turnsmith.rewards.projects import select_gold
from turnsmith.rewards.reflections import OUT_OF_TIME, Reflection, draw_reflection, find_wrong, has_end, is_shaky
from turnsmith.rewards.sentinels import draw_sentinels
from turnsmith.rewards.testing import PYTEST, Suite, SuiteReport, find_test_files, run_suite
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec
from turnsmith.types import Grade, Outcome, Task

MIRROR, TWIN = "mirror", "twin"
"""Flags of a patch whose tests fail under other names, or pass with another expectation."""


@dataclass(frozen=True)
class Case:
    """A task, where its tree lies, and where its tests run."""

    task: Task
    layers: tuple[Path, ...]
    provider: SandboxProvider
    tests_timeout_s: float

    @property
    def expected(self) -> list[str]:
        return [*self.task.FAIL_TO_PASS, *self.task.PASS_TO_PASS]

    @property
    def is_sealed(self) -> bool:
        """Can it have sentinels and a mirror? Suites that are not pytest's have only their log and their exit code."""
        return self.task.log_parser == PYTEST


async def try_patch(case: Case, patch: str) -> Grade:
    """The verdict on a patch, by the expected tests and by sentinels beside them.

    Raises PatchRefused, SandboxError, GradingError.
    """
    files = find_test_files(case.expected)
    if not case.is_sealed:
        return judge(case.task, await _run(case, patch, files, {}, case.expected))
    sentinels = draw_sentinels(PurePosixPath(files[0]).parent)
    known = [*case.expected, *sentinels.statuses]
    report = await _run(case, patch, (*files, sentinels.path), {sentinels.path: sentinels.text}, known)
    return judge(case.task, report, sentinels)


async def confirm(case: Case, patch: str, mirror: Mirror, grade: Grade) -> Grade:
    """A verdict of resolved once more, by tests that nobody knows.

    One run in which tests fail, and no twin passes, may be an accident, and is repeated; what the gold patch does not pass either
    shows nothing.

    Raises PatchRefused, SandboxError, GradingError.
    """
    confirmed = grade.model_copy(update={"evidence": _count_evidence(mirror, case.task.FAIL_TO_PASS)})
    for look in await _look_into_all(case, patch, mirror):
        if (wrong := find_wrong(look.ends)) and (lies := wrong - await _find_excuses(case, look.reflection)):
            return _convict(confirmed, look.ends, lies)
    return confirmed


def _count_evidence(mirror: Mirror, must: Iterable[str]) -> dict[str, int]:
    """What of a mirror a verdict rests on, and how many of the functions that must come to pass have twins there."""
    return {
        "mirrored": len(mirror.tests) - len(mirror.twins),
        "twins": len(mirror.twins),
        "guarded": len(mirror.find_guarded(must)),
    }


async def _find_excuses(case: Case, reflection: Reflection) -> set[Reflected]:
    """What ends wrongly under the gold patch, too, in the same company, with the same names and salts.

    Raises SandboxError, GradingError where that run has no end: it says nothing.
    """
    gold = select_gold(case.task, case.layers)
    for _ in range(2):
        if has_end(ends := await _run_reflection(case, gold, reflection)):
            return find_wrong(ends)
    raise GradingError(f"the tests of {case.task.instance_id} do not come to their end under other names, even on gold")


def _convict(grade: Grade, ends: Ends, lies: set[Reflected]) -> Grade:
    if OUT_OF_TIME in ends.values():
        detail = "the tests run out of time under other names"
        return grade.model_copy(update={"outcome": Outcome.TESTS_TIMED_OUT, "detail": detail})
    flags, detail = [MIRROR], "the tests do not come to their end under other names"
    if has_end(ends):
        flags = sorted({TWIN if lie.double.is_twin else MIRROR for lie in lies})
        detail = _describe(min(lies, key=str))
    return grade.model_copy(update={"outcome": Outcome.TAMPERED, "flags": flags, "detail": detail})


def _describe(lie: Reflected) -> str:
    how = "passes, and with another expectation, too" if lie.double.is_twin else "passes under its own name only"
    return f"{lie.original} {how}"


@dataclass(frozen=True)
class Look:
    """One run of a mirror."""

    reflection: Reflection
    ends: Ends


async def _look_into_all(case: Case, patch: str, mirror: Mirror) -> list[Look]:
    """Run each side, and the only one in which tests failed, and nothing else happened, once more."""
    sides = mirror.share_out(case.task.FAIL_TO_PASS)
    looks = [await _look_into(case, patch, side) for side in sides]
    shaky = [number for number, look in enumerate(looks) if is_shaky(look.ends)]
    if len(shaky) == 1:
        looks[shaky[0]] = await _look_into(case, patch, sides[shaky[0]])
    return looks


async def _look_into(case: Case, patch: str, side: Mirror) -> Look:
    """Run all tests of a mirror; once more where the run did not come to its end, since others may have cut it short."""
    for _ in range(2):
        reflection = draw_reflection(side)
        ends = await _run_reflection(case, patch, reflection)
        if has_end(ends):
            break
    return Look(reflection, ends)


async def _run_reflection(case: Case, patch: str, reflection: Reflection) -> Ends:
    report = await _run(case, patch, tuple(reflection.tests), reflection.texts, ())
    return reflection.read(report)


async def find_mirror(case: Case) -> Mirror:
    """Double the tests of a task, and keep the doubles that end as they must under the gold patch.

    Raises PatchRefused, SandboxError, GradingError.
    """
    if not case.is_sealed:
        return NO_MIRROR
    tests = choose_tests(case.task.FAIL_TO_PASS, case.task.PASS_TO_PASS)
    mirror = make_mirror(await _read_tests(case, find_test_files(tests)), tests)
    gold = select_gold(case.task, case.layers)
    return mirror.keep_sound([(await _look_into(case, gold, side)).ends for side in mirror.spread_out()])


async def _read_tests(case: Case, files: Iterable[str]) -> dict[str, str]:
    """The test files as they are when they run."""
    sandbox = await case.provider.start(SandboxSpec(case.layers, case.task.workdir, image=case.task.image))
    try:
        await prepare(sandbox, case.task, case.layers, patch="", added={})
        return {file: _decode(await sandbox.read(file)) for file in files}
    except OSError as error:
        raise GradingError(f"a test file of {case.task.instance_id} cannot be read: {error}") from None
    finally:
        await sandbox.stop()


def _decode(source: bytes) -> str:
    """As Python reads it, by what its first lines say."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError:
        encoding = "utf-8-sig"
    return source.decode(encoding, errors="replace")


async def _run(
    case: Case, patch: str, tests: tuple[str, ...], added: Mapping[str, str], known: Iterable[str]
) -> SuiteReport:
    """Run test files, or tests by their ids, on a patch in a pristine sandbox."""
    task = case.task
    suite = Suite(
        task.test_command, tests, task.workdir, task.log_parser, case.tests_timeout_s, frozenset(known), task.image
    )
    return await run_suite(
        case.provider,
        case.layers,
        suite,
        partial(prepare, task=task, layers=case.layers, patch=patch, added=added),
    )
