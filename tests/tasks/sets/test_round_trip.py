"""Round trip: an exported row equals the imported one and imports as the same task."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.data_sets.golden_rows import FAILING, GOLDEN, ISSUE, PASSING, SWE_BENCH
from turnsmith.tasks.dataset import load_tasks, save_tasks
from turnsmith.tasks.sets.base import Refused, to_record, to_row
from turnsmith.tasks.sets.recognition import find_set, recognise

ROWS = Path(os.environ.get("TURNSMITH_ROWS", "/nonexistent"))
REAL = {
    "swe-bench-lite": "swe-bench",
    "swe-bench-verified": "swe-bench",
    "swe-rebench-v1": "swe-rebench",
    "swe-rebench-v2": "swe-rebench-v2",
    "swe-gym": "swe-gym",
    "swe-gym.variant-string-lists": "swe-gym",
    "swe-smith": "swe-smith",
    "swe-smith.generator-output": "swe-smith",
    "r2e-gym": "r2e-gym",
    "multi-swe-bench": "multi-swe",
}
REFUSED = {
    "swe-bench-pro.decoded": "no run script",
    "swe-bench-pro.reencoded": "no run script",
    "swe-bench-pro.raw-text-fields": "no repo",
}
"""Reasons for which real rows cannot be tasks unchanged."""


def bring_round(name, row, folder):
    """Return the task of a row and the task of its export, both read from a task file."""
    task = to_record(find_set(name), row)
    [loaded] = load_tasks(save_tasks(folder, [task]))
    exported = to_row(loaded, find_set(name))
    assert exported == row
    assert list(exported) == list(row)
    return task, to_record(find_set(name), exported)


@pytest.mark.parametrize(("name", "row"), GOLDEN, ids=[f"{name}-{number}" for number, (name, _) in enumerate(GOLDEN)])
def test_a_golden_row_of_each_set_leaves_as_it_came(tmp_path, name, row):
    first, second = bring_round(name, row, tmp_path)
    assert first == second
    assert recognise(row) is find_set(name)
    assert ISSUE in first.problem_statement
    assert first.image and first.test_command and not first.layers


@pytest.mark.skipif(not ROWS.is_dir(), reason="TURNSMITH_ROWS names no folder of real rows")
@pytest.mark.parametrize(("file", "name"), REAL.items())
def test_real_rows_leave_as_they_came(tmp_path, file, name):
    lines = (ROWS / f"{file}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        first, second = bring_round(name, row, tmp_path)
        assert first == second
        assert recognise(row) is find_set(name)


@pytest.mark.skipif(not ROWS.is_dir(), reason="TURNSMITH_ROWS names no folder of real rows")
@pytest.mark.parametrize(("file", "reason"), REFUSED.items())
def test_real_rows_that_cannot_be_graded_are_refused_for_a_true_reason(file, reason):
    for line in (ROWS / f"{file}.jsonl").read_text().splitlines():
        with pytest.raises(Refused) as refused:
            to_record(find_set("swe-bench-pro"), json.loads(line))
        assert refused.value.reason == reason


spellings = st.sampled_from([list, json.dumps, repr, lambda tests: json.dumps(tests, indent=1)])
names = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=3, unique=True)


@given(names, spellings)
def test_lists_of_tests_are_read_and_written_in_every_spelling(tests, write):
    row = SWE_BENCH | {"FAIL_TO_PASS": write(tests), "PASS_TO_PASS": "[]"}
    task = to_record(find_set("swe-bench"), row)
    assert tests == task.FAIL_TO_PASS
    assert to_row(task, find_set("swe-bench")) == row


def test_what_was_changed_since_leaves_in_the_spelling_that_came_in():
    task = to_record(find_set("swe-bench"), SWE_BENCH)
    fewer = task.model_copy(update={"PASS_TO_PASS": PASSING[:1]})
    assert to_row(fewer, find_set("swe-bench")) == SWE_BENCH | {"PASS_TO_PASS": json.dumps(PASSING[:1])}


def test_a_test_in_both_lists_must_pass_after_the_fix():
    row = SWE_BENCH | {"PASS_TO_PASS": json.dumps(PASSING + FAILING)}
    task = to_record(find_set("swe-bench"), row)
    assert (task.FAIL_TO_PASS, task.PASS_TO_PASS) == (FAILING, PASSING)
    assert to_row(task, find_set("swe-bench")) == row
