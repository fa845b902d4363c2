"""Grids of solve rates: order of columns, counts, and tasks that some columns lack."""

import pytest

from conftest import make_trajectory
from turnsmith.runs.journal import append_trajectory
from turnsmith.types import Outcome
from turnsmith.ui.view.grids import list_grids
from turnsmith.ui.view.opened import OpenedRun


@pytest.fixture
def grids(run_folder):
    for journal in run_folder.journals():
        journal.unlink()
    journals = {
        "stage1-0001": run_folder.iteration("stage1", 1).trajectories,
        "stage1-0000": run_folder.iteration("stage1", 0).trajectories,
        "rft": run_folder.iteration("rft", 0).trajectories,
        "eval-stage1": run_folder.eval_trajectories("stage1", "practice"),
        "eval-base": run_folder.eval_trajectories("base", "practice"),
        "eval-unfinished": run_folder.eval_trajectories("stage1@3", "practice"),
    }
    outcomes = [Outcome.RESOLVED, Outcome.UNRESOLVED, Outcome.SANDBOX_FAILED]
    for name, journal in journals.items():
        for index, outcome in enumerate(outcomes):
            append_trajectory(journal, make_trajectory(f"{name}/a-1/{index}", outcome))
    append_trajectory(journals["eval-base"], make_trajectory("eval-base/b-1/0"))
    append_trajectory(journals["eval-base"], make_trajectory("eval-base/c-1/0", Outcome.ENGINE_FAILED))
    return {grid["name"]: grid for grid in list_grids(OpenedRun(run_folder))}


def test_columns_are_in_the_order_of_the_run(grids):
    assert grids["practice"]["columns"] == ["evals/base/practice", "evals/stage1/practice", "evals/stage1@3/practice"]
    iterations = ["stages/rft/iteration-0000", "stages/stage1/iteration-0000", "stages/stage1/iteration-0001"]
    assert grids["training"]["columns"] == iterations


def test_cells_count_resolved_and_counted_attempts(grids):
    rows = {row["task"]: row["cells"] for row in grids["practice"]["rows"]}
    assert rows == {"a-1": [(1, 2)] * 3, "b-1": [(1, 1), None, None], "c-1": [None] * 3}
