"""One run of a mirror: names drawn for it, and how its tests ended."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from turnsmith.rewards.doubles import keep_doubles
from turnsmith.rewards.expected import MISSING
from turnsmith.rewards.mirror import Ends, Mirror, Reflected
from turnsmith.rewards.placeholders import PLACEHOLDER, Names, fill_in
from turnsmith.rewards.sentinels import draw_path
from turnsmith.rewards.testing import SuiteReport

OUT_OF_TIME, CUT_SHORT = "out of time", "cut short"
"""How every test of a run ended that did not come to its end."""


@dataclass(frozen=True)
class Reflection:
    """A mirror with names, drawn for one run."""

    texts: dict[str, str]
    """Test file → text: the new ones, and nothing in the place of those that they were made from."""
    tests: dict[str, Reflected]
    """Id → what it is, in the order in which they run: that of the expected tests in their files."""

    def read(self, report: SuiteReport) -> Ends:
        """How each test ended by the signed report; `missing` for what did not run, and a word for all if the run had no end.

        The tests have, once the report has: a twin that fails before it cleans up may leave a thread that keeps the process.
        """
        if not report.sealed or not report.sealed.is_finished:
            return dict.fromkeys(self.tests.values(), OUT_OF_TIME if report.timed_out else CUT_SHORT)
        return {one: report.sealed.statuses.get(test, MISSING) for test, one in self.tests.items()}


def draw_reflection(mirror: Mirror) -> Reflection:
    """New names for the files and tests of a mirror."""
    texts = dict.fromkeys(mirror.texts, "")
    tests: dict[str, Reflected] = {}
    for file in sorted({test.file for test in mirror.tests}):
        mine, names = sorted((test for test in mirror.tests if test.file == file), key=_place), Names()
        new = draw_path(PurePosixPath(file).parent)
        texts[new] = fill_in(keep_doubles(mirror.texts[file], {test.double.name for test in mine}), names)
        tests |= {f"{new}::{fill_in(test.double.place, names)}{test.parameters}": test for test in mine}
    return Reflection(texts, tests)


def _place(test: Reflected) -> tuple[str, str]:
    """Where it stands in its file: placeholders are numbered."""
    return PLACEHOLDER.findall(test.double.name)[0], test.parameters


def find_wrong(ends: Ends) -> set[Reflected]:
    """What ended otherwise than it must."""
    return {test for test, status in ends.items() if not test.is_as_it_must(status)}


def has_end(ends: Ends) -> bool:
    """Did the run come to its end?"""
    return not {OUT_OF_TIME, CUT_SHORT}.intersection(ends.values())


def is_shaky(ends: Ends) -> bool:
    """Did tests fail that must pass, and nothing else happen?"""
    wrong = find_wrong(ends)
    return bool(wrong) and has_end(ends) and not any(test.double.is_twin for test in wrong)
