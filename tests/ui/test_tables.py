import io
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from conftest import make_trajectory
from turnsmith.cli.showing import LEGEND, UPDATE_LEGEND
from turnsmith.runs.journal import JournalEntry
from turnsmith.types import Outcome, Task
from turnsmith.ui.reading import FinishedIteration, list_entries, read_iterations, read_results
from turnsmith.ui.tables import (
    ITERATION_COLUMNS,
    UPDATE_COLUMNS,
    UPDATE_PARTS,
    count_up,
    describe_shared,
    endings_table,
    iterations_table,
    make_table,
    results_table,
    to_short,
    trajectories_table,
    updates_table,
    yes_no_table,
)
from turnsmith.ui.trajectory import describe_tests, show_trajectory

OUTCOME = Outcome.UNRESOLVED


def shown(*renderables, width=200):
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    console.print(*renderables)
    return console.file.getvalue()


def shown_trajectory(trajectory, prompt="You fix it.", task=None):
    console = Console(file=io.StringIO(), width=120, markup=False, emoji=False, highlight=False)
    show_trajectory(trajectory, prompt, task, console)
    return console.file.getvalue()


def test_stages_of_one_task_set_are_adjacent_rows(run_folder):
    rows = [line.split()[:2] for line in shown(results_table(read_results(run_folder))).splitlines()]
    assert [row for row in rows if row and row[0] in ("practice", "package")] == [
        [name, stage] for name in ("practice", "package") for stage in ("base", "rft", "stage1", "stage2")
    ]


def test_a_result_shows_its_standard_error_if_it_has_one(run_folder):
    result = read_results(run_folder)[0]
    assert "8.0 ± 2.0 %" in shown(results_table([result]))
    assert "±" not in shown(results_table([result | {"sem": None}])).split("runs")[1]


@pytest.mark.parametrize(
    ("legend", "headings"), [(LEGEND, ITERATION_COLUMNS), (UPDATE_LEGEND, UPDATE_COLUMNS | UPDATE_PARTS)]
)
def test_the_legend_explains_headings_of_its_table(legend, headings):
    explained = [name for line in legend.splitlines() for name in line.split(": ")[0].split(", ")]
    assert [name for name in explained if name not in headings] == []


def test_metrics_that_an_iteration_lacks_are_empty_cells(run_folder):
    lines = [line.split() for line in shown(iterations_table(read_iterations(run_folder))).splitlines()]
    [rft] = [line for line in lines if line[:1] == ["rft"]]
    [first] = [line for line in lines if line[:2] == ["stage1", "1"]]
    assert rft == ["rft", "1", "9.0%"]
    assert first[2:] == ["30.0%", "7.0", "50%", "15/24", "0%", "0.800", "2e-07", "21+14"]


ACCOUNT = {
    "tokens/trained": 12_345_678.0, "tokens/in_loss": 1_234_567.0, "tokens/trained_per_s": 123_456.0,
    "compute/tflops_per_rank": 412.5, "compute/mfu": 0.417, "time/update_s": 1_200.0, "time/attention_s": 480.0,
    "time/head_s": 36.0, "time/communication_s": 120.0, "time/optimizer_s": 12.0, "time/waiting_s": 60.0,
}  # fmt: skip


def test_the_table_of_optimizer_steps_fits_into_80_columns_and_leaves_out_what_no_iteration_measured():
    whole = FinishedIteration("stage1", 0, ACCOUNT)
    text = shown(updates_table([whole]), width=80).rstrip()
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert text.splitlines()[-1].split()[2:] == [
        "12.3M", "123k", "412", "41.7%", "1,200", "40%", "3%", "10%", "1%", "5%"
    ]  # fmt: skip
    part = {key: value for key, value in ACCOUNT.items() if key not in ("compute/mfu", "time/waiting_s")}
    headings = shown(updates_table([FinishedIteration("stage1", 0, part)])).splitlines()[0]
    assert "head" in headings and "MFU" not in headings and "wait" not in headings


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (7.25, "7.25"), (999.7, "1.00k"), (999_700, "1.00M"), (12_300, "12.3k"), (4e9, "4.00G")],
)
def test_counts_are_shown_with_three_digits(count, text):
    assert to_short(count) == text


def test_every_table_fits_into_80_columns_and_numbers_stay_whole(run_folder):
    iterations = [
        FinishedIteration(
            "curriculum", number, metrics | {"time/collect_s": 1234.0, "time/train_s": 567.0, "groups/all": 300}
        )
        for number, metrics in enumerate(each.metrics for each in read_iterations(run_folder)[1:])
    ]
    results = read_results(run_folder)
    for table in (results_table(results), endings_table(results), iterations_table(iterations)):
        text = shown(table, width=80)
        assert max(map(len, text.splitlines())) <= 80
        assert "…" not in text
    assert "2e-07  1234+567" in text


def test_tables_of_text_fold_at_80_columns_without_loss():
    long = "toolz-1.0.0.swap.1f3a9c04 and test_shop.py::test_bounded_sum_of_many_prices_and_then_some_more never passes"
    tables = {
        long: make_table(["task", "verdict", "why"], [("toolz-1.0.0.swap.1f3a9c04", "gold fails", long)]),
        f"{long}{long}": yes_no_table(["this machine", "", "found", "remedy"], [(False, ("namespaces", long, long))]),
        f"{long}{long}{long}": make_table(["kind", "tasks"], [(long * 3, 1)], num_names=1),
        "failing tests": make_table(["length", "median", "max"], [("failing tests", 12_345.5, "1e+06")], num_names=1),
    }
    for text, table in tables.items():
        lines = shown(table, width=80).splitlines()
        assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)
        assert not Counter(text.replace(" ", "")) - Counter("".join(lines))


def test_a_result_of_an_older_version_has_empty_fields(run_folder):
    [result] = read_results(run_folder)[:1]
    old = dict.fromkeys(result) | {"stage": "base", "task_set": "practice", "pass_at_1": 0.2}
    assert "20.0 %" in shown(results_table([old]), endings_table([old]))


def make_entries(tasks, stages):
    made = (
        make_trajectory(f"{stage}/{task}/{index}", OUTCOME) for stage in stages for task in tasks for index in (0, 1)
    )
    return [JournalEntry(f"{number:010}", Path("evals/base/a/x.jsonl"), each) for number, each in enumerate(made)]


@pytest.mark.parametrize("tasks", [["a"], ["a", "scikit-learn__scikit-learn-25747"]])
@pytest.mark.parametrize("stages", [["eval-base"], ["eval-base", "curriculum-0049"]])
def test_short_ids_and_numbers_of_trajectories_stay_whole_at_80_columns(tasks, stages):
    entries = make_entries(tasks, stages)
    text = shown(trajectories_table(entries), width=80)
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    for entry in entries:
        [line] = [line for line in text.splitlines() if line.startswith(entry.short_id)]
        assert line.split()[-3:] == ["2", "7", "0"] and OUTCOME in line


def test_a_shared_stage_or_task_is_named_once():
    one_task, one_stage, mixed = (
        make_entries(*names)
        for names in ((["a"], ["rft", "eval-rft"]), (["a", "b"], ["rft"]), (["a", "b"], ["rft", "eval-rft"]))
    )
    for entries, said, columns in (
        (one_task, "4 trajectories, task a", ["stage", "outcome", "ended", "by"]),
        (one_stage, "4 trajectories, stage rft", ["task", "outcome", "ended", "by"]),
        (mixed, "8 trajectories", ["stage", "task", "outcome"]),
    ):
        assert describe_shared(entries) == said
        heading = shown(trajectories_table(entries)).splitlines()[0].split()
        assert heading == ["trajectory", *columns, "turns", "tokens", "s"]


def test_the_issue_is_shown_only_if_the_prompt_lacks_it(run_folder):
    [entry] = list_entries(run_folder, "eval-base/practice-1.swap.1f3a9c04/1")
    task = Task.model_construct(problem_statement="It is broken.")
    text = shown_trajectory(entry.trajectory, "You fix it.\n\nExample:\n\x1b[2J\n\nIt is broken.", task)
    assert text.index("prompt · 2 tokens") < text.index("Example:") < text.index("turn 1")
    assert "\\x1b[2J" in text and "\x1b" not in text and text.count("It is broken.") == 1
    assert "issue" in shown_trajectory(entry.trajectory, "It cannot be shown", task)


def test_control_sequences_of_an_agent_are_printed_as_text(run_folder):
    [entry] = list_entries(run_folder, "eval-base/practice-1.swap.1f3a9c04/0")
    text = shown_trajectory(entry.trajectory)
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert r"\x1b[2J\x1b]0;owned\x07[bold red]not markup[/] :boom: \u202e end" in text


def test_control_sequences_in_names_patches_and_details_are_printed_as_text(run_folder):
    [entry] = list_entries(run_folder, "eval-base/practice-1.swap.1f3a9c04/0")
    evil = "x\x1b[31m[red]\r"
    names = {"trajectory_id": evil, "instance_id": evil}
    hostile = entry.trajectory.grow(**names, patch=f"+{evil}", detail=evil, isolation=evil)
    entries = [JournalEntry("a", entry.journal, hostile), JournalEntry("b", entry.journal, entry.trajectory)]
    for text in (
        shown_trajectory(hostile),
        shown(trajectories_table(entries)),
        shown(describe_shared(entries[:1])),
    ):
        assert "\x1b" not in text and "\r" not in text
        assert r"x\x1b[31m[red]" in text


def test_a_trajectory_is_shown_from_issue_to_verdict(run_folder):
    [entry] = list_entries(run_folder, "eval-base/practice-1.swap.1f3a9c04/1")
    text = shown_trajectory(entry.trajectory)
    landmarks = ["turn 1", "Look.", "ls", "ok", "turn 2", "submit", "patch", "+2", "verdict", "unresolved", "test_b"]
    rest = text
    for landmark in landmarks:
        _, found, rest = rest.partition(landmark)
        assert found, landmark
    assert "mean log-prob -0.75" in text


def test_many_broken_tests_are_counted_not_listed():
    text = describe_tests({f"t{number}": "failed" for number in range(50)})
    assert text.splitlines()[0] == "tests: 50 failed"
    assert text.splitlines()[-1] == "… and 30 more"


def test_a_table_of_checks_shows_yes_and_no():
    rows = [line.split() for line in shown(yes_no_table(["a", ""], [(True, ["git"]), (False, ["disk"])])).splitlines()]
    assert ["git", "yes"] in rows and ["disk", "no"] in rows


def test_counts_begin_with_the_most_frequent():
    assert count_up({"resolved": 1, "unresolved": 3}) == "3 unresolved, 1 resolved"
