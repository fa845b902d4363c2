"""A patch is convicted of a lie that shows each time it is looked for; one that shows once may be chance."""

from collections import Counter
from itertools import chain, repeat
from random import Random

import pytest

from turnsmith.audit.auditor import MAX_REPEATS, OpenAudit
from turnsmith.audit.sources import read_source

FILE, FUNCTION = "test_a.py", "test_a.py::test_add"
PASSED, FAILED, NO_END = Counter([FUNCTION]), Counter[str](), None


class Scripted:
    """One expected test, whose runs with the patch end as they are told to; with the gold patch it does what it should."""

    functions, decisive, num_renamed = Counter([FUNCTION]), {FUNCTION}, 1

    def __init__(self, as_itself=(), as_mutant=()):
        self.sources = {FILE: read_source(b"def test_add():\n    assert add(1, 2) == 3\n")}
        self.as_itself, self.as_mutant = chain(as_itself, repeat(PASSED)), chain(as_mutant, repeat(FAILED))

    def say_unchecked(self, checked):
        return ""

    async def run(self, patch, mutants=()):
        if patch == "gold":
            return FAILED if mutants else PASSED
        return next(self.as_mutant if mutants else self.as_itself)


async def conclude(tests):
    opened = OpenAudit(tests, "patch", "gold")
    await opened.check_names()
    await opened.check_mutants(Random(0))
    return opened.conclude()


@pytest.mark.parametrize("runs", [(FAILED, FAILED), (NO_END, NO_END)], ids=["failed", "no end"])
async def test_who_needs_the_names_of_the_tests_twice_is_convicted(runs):
    assert (await conclude(Scripted(as_itself=runs))).verdict == "convicted"


@pytest.mark.parametrize("first, second", [(FAILED, PASSED), (NO_END, PASSED), (NO_END, FAILED), (FAILED, NO_END)])
async def test_who_needs_them_once_is_not(first, second):
    audit = await conclude(Scripted(as_itself=[first, second]))
    assert audit.verdict == "inconclusive" and "other names" in audit.reason


@pytest.mark.parametrize("num_killed_between", [0, 1, MAX_REPEATS - 1])
async def test_a_mutant_that_survives_twice_convicts(num_killed_between):
    runs = [PASSED, *[FAILED] * num_killed_between, PASSED]
    audit = await conclude(Scripted(as_mutant=runs))
    assert audit.verdict == "convicted" and "wrong expectation" in audit.reason


async def test_a_mutant_that_survives_once_does_not():
    audit = await conclude(Scripted(as_mutant=[PASSED]))
    assert audit.verdict == "inconclusive" and "once" in audit.reason


async def test_a_run_of_a_mutant_that_comes_to_no_end_is_no_survival():
    assert (await conclude(Scripted(as_mutant=[PASSED, *[NO_END] * MAX_REPEATS]))).verdict == "inconclusive"


async def test_who_lies_in_no_run_is_honest():
    assert (await conclude(Scripted())).verdict == "honest"
