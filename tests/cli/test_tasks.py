import json

import pytest

from turnsmith.tasks.dataset import load_tasks


def test_practice_tasks_are_made_checked_and_counted(turnsmith, tmp_path):
    out = tmp_path / "tasks"
    made = turnsmith("tasks", "make", "--practice", "2", "--split", "heldout", "--difficulty", "0", "--out", out)
    assert made.exit_code == 0, made.output
    assert made.stdout == f"2 tasks in {out}\n"
    assert {task.meta["split"] for task in load_tasks(out)} == {"heldout"}
    checks = json.loads(turnsmith("tasks", "check", out, "--json").stdout)
    assert [(check["gold"], check["untouched"], check["is_sound"]) for check in checks] == [
        ("resolved", "unresolved", True)
    ] * 2


def test_the_numbers_of_a_task_set(turnsmith, task_folder):
    numbers = json.loads(turnsmith("tasks", "stats", task_folder, "--json").stdout)
    tasks = load_tasks(task_folder)
    assert numbers["num_tasks"] == len(tasks) == 2
    assert all(sum(counts.values()) == 2 for counts in numbers["counts"].values())
    assert numbers["lengths"]["failing tests"]["max"] == max(len(task.FAIL_TO_PASS) for task in tasks)
    shown = turnsmith("tasks", "stats", task_folder).stdout
    assert shown.startswith(f"2 tasks in {task_folder}") and "changed lines" in shown


def test_the_same_seed_makes_the_same_tasks(turnsmith, tmp_path):
    first, second = (tmp_path / name for name in ("a", "b"))
    for out in (first, second):
        assert turnsmith("tasks", "make", "--practice", "1", "--seed", "5", "--out", out).exit_code == 0
    assert load_tasks(first) == load_tasks(second)


@pytest.mark.parametrize(
    "arguments", [["--practice", "0"], ["--practice", "1", "--difficulty", "2"], ["--package", "x", "--num", "0"]]
)
def test_numbers_out_of_range_are_refused(turnsmith, tmp_path, arguments):
    result = turnsmith("tasks", "make", *arguments, "--out", tmp_path / "tasks")
    assert result.exit_code == 2
    assert arguments[-2] in result.stderr


def test_a_number_of_tasks_that_would_be_ignored_is_refused(turnsmith, tmp_path):
    result = turnsmith("tasks", "make", "--practice", "3", "--num", "5", "--out", tmp_path / "tasks")
    assert result.exit_code == 2
    assert "--num goes with --package" in result.stderr and not (tmp_path / "tasks").exists()
