from pathlib import PurePosixPath

import pytest

from turnsmith.grading.log_parsers.base import TestResult
from turnsmith.grading.sentinels import draw_sentinels
from turnsmith.grading.testing import Suite, SuiteReport, run_suite
from turnsmith.types import PYTEST_COMMAND


async def test_sentinels_have_their_statuses(provider, tmp_path):
    (tmp_path / "tests").mkdir()
    sentinels = draw_sentinels(PurePosixPath("tests"))
    (tmp_path / sentinels.path).write_text(sentinels.text)
    report = await run_suite(provider, (tmp_path,), Suite(PYTEST_COMMAND, (sentinels.path,)))
    assert {test: report.status(test) for test in sentinels.statuses} == sentinels.statuses
    assert report.exit_code == 1
    assert sentinels.find_falsified(report, only_flattering=False) == []


def bend(sentinels, must, status):
    """Make a report in which one sentinel has another status."""
    statuses = {test: status if end == must else end for test, end in sentinels.statuses.items()}
    return SuiteReport({test: TestResult(end) for test, end in statuses.items()}, 1, 0.1)


@pytest.mark.parametrize(("must", "status"), [("failed", "passed"), ("skipped", "passed"), ("error", "passed")])
def test_sentinel_that_passes_wrongly_is_falsified(must, status):
    sentinels = draw_sentinels(PurePosixPath())
    report = bend(sentinels, must, status)
    [found] = sentinels.find_falsified(report, only_flattering=True)
    assert must in found


@pytest.mark.parametrize(("must", "status"), [("passed", "failed"), ("failed", "missing"), ("skipped", "error")])
def test_failing_sentinels_do_not_flatter_a_patch(must, status):
    sentinels = draw_sentinels(PurePosixPath())
    report = bend(sentinels, must, status)
    assert sentinels.find_falsified(report, only_flattering=True) == []
    assert len(sentinels.find_falsified(report, only_flattering=False)) == 1


def test_sentinels_have_new_names_in_each_run():
    drawn = [draw_sentinels(PurePosixPath()) for _ in range(20)]
    assert len({name for sentinels in drawn for name in sentinels.statuses}) == 80
