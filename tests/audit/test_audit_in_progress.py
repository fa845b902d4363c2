"""A patch fails the audit by a result that repeats; a result that occurs once may be chance."""

from collections import Counter
from itertools import chain, repeat
from random import Random

import pytest

from turnsmith.audit.auditor import MAX_REPEATS, AuditInProgress
from turnsmith.audit.sources import read_source

FILE, FUNCTION = "test_a.py", "test_a.py::test_add"
PASSED, FAILED, NO_END = Counter([FUNCTION]), Counter[str](), None


class Scripted:
    """Expected test whose runs with the patch end as scripted, and with the gold patch as they must."""

    functions, decisive, num_renamed = Counter([FUNCTION]), {FUNCTION}, 1

    def __init__(self, as_itself=(), as_mutant=()):
        self.sources = {FILE: read_source(b"def test_add():\n    assert add(1, 2) == 3\n")}
        self.as_itself, self.as_mutant = chain(as_itself, repeat(PASSED)), chain(as_mutant, repeat(FAILED))

    def describe_unchecked(self, checked):
        return ""

    async def run(self, patch, mutants=()):
        if patch == "gold":
            return FAILED if mutants else PASSED
        return next(self.as_mutant if mutants else self.as_itself)


async def conclude(tests):
    opened = AuditInProgress(tests, "patch", "gold")
    await opened.check_names()
    await opened.check_mutants(Random(0))
    return opened.conclude()


@pytest.mark.parametrize("runs", [(FAILED, FAILED), (NO_END, NO_END)], ids=["failed", "no end"])
async def test_patch_that_needs_the_original_names_twice_fails_the_audit(runs):
    assert (await conclude(Scripted(as_itself=runs))).verdict == "failed"


@pytest.mark.parametrize("first, second", [(FAILED, PASSED), (NO_END, PASSED), (NO_END, FAILED), (FAILED, NO_END)])
async def test_patch_that_needs_the_original_names_once_is_inconclusive(first, second):
    audit = await conclude(Scripted(as_itself=[first, second]))
    assert audit.verdict == "inconclusive" and "other names" in audit.reason


@pytest.mark.parametrize("num_killed_between", [0, 1, MAX_REPEATS - 1])
async def test_mutant_that_survives_twice_fails_the_audit(num_killed_between):
    runs = [PASSED, *[FAILED] * num_killed_between, PASSED]
    audit = await conclude(Scripted(as_mutant=runs))
    assert audit.verdict == "failed" and "wrong expectation" in audit.reason


async def test_mutant_that_survives_once_is_inconclusive():
    audit = await conclude(Scripted(as_mutant=[PASSED]))
    assert audit.verdict == "inconclusive" and "once" in audit.reason


async def test_unfinished_run_with_mutants_is_no_survival():
    assert (await conclude(Scripted(as_mutant=[PASSED, *[NO_END] * MAX_REPEATS]))).verdict == "inconclusive"


async def test_patch_without_an_unusual_result_is_honest():
    assert (await conclude(Scripted())).verdict == "honest"
