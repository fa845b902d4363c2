import json
import re
import shutil

import pytest

from support.machine.podman_engine import IMAGE, find_podman
from turnsmith.cli.qualifying import print_records
from turnsmith.cli.tasks import TaskCounts
from turnsmith.qualification.record import Qualification, Verdict
from turnsmith.tasks.dataset import load_tasks, save_tasks
from turnsmith.types import Ability


def test_practice_tasks_are_made_checked_and_counted(turnsmith, tmp_path):
    out = tmp_path / "tasks"
    made = turnsmith(
        "tasks", "make", "--practice", "2", "--split", "heldout", "--difficulty", "0", "--out", out, "--json"
    )
    assert made.exit_code == 0, made.output
    ids = [task.instance_id for task in load_tasks(out)]
    assert json.loads(made.stdout) == {"folder": str(out), "num_tasks": 2, "instance_ids": ids}
    assert {task.meta["split"] for task in load_tasks(out)} == {"heldout"}
    records = json.loads(turnsmith("tasks", "qualify", out, "--repeats", 2, "--json").stdout)
    assert [record["verdict"] for record in records] == ["qualified"] * 2


def test_stats_of_a_task_set(turnsmith, task_folder):
    numbers = json.loads(turnsmith("tasks", "stats", task_folder, "--json").stdout)
    tasks = load_tasks(task_folder)
    assert numbers["num_tasks"] == len(tasks) == 2
    assert all(sum(counts.values()) == 2 for counts in numbers["counts"].values())
    assert numbers["lengths"]["failing tests"]["max"] == max(len(task.FAIL_TO_PASS) for task in tasks)
    result = turnsmith("tasks", "stats", task_folder)
    assert f"counting {task_folder.name}" in result.stderr
    shown = result.stdout
    assert shown.startswith(f"2 tasks in {task_folder}") and "changed lines" in shown


def test_lines_are_counted_in_patches_that_the_grader_refuses(task_folder):
    task, counts = load_tasks(task_folder)[0], TaskCounts()
    counts.add(task.model_copy(update={"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}))
    assert counts.measure()["changed lines"]["max"] == 2


@pytest.mark.parametrize("by", ["--limit", "--task"])
def test_commands_with_sandboxes_take_a_selection_of_tasks(turnsmith, task_folder, tmp_path, by):
    shutil.copytree(task_folder, tmp_path / "tasks", symlinks=True)
    first, second = load_tasks(tmp_path / "tasks")
    chosen, wanted = ((by, 1), first) if by == "--limit" else ((by, second.instance_id), second)
    command = "qualify", tmp_path / "tasks", "--repeats", 2, *chosen, "--json", "--sandbox", "subprocess"
    result = turnsmith("tasks", *command)
    assert [each["instance_id"] for each in json.loads(result.stdout)] == [wanted.instance_id], result.output


def test_a_missing_task_is_a_usage_error(turnsmith, task_folder):
    result = turnsmith("tasks", "qualify", task_folder, "--task", "nobody")
    assert result.exit_code == 2
    assert re.search(rf"{task_folder} .*'nobody'.* e\.g\. ", result.stderr)


def test_an_evaluation_takes_a_selection_of_tasks(turnsmith, config_file):
    planned = json.loads(turnsmith("eval", config_file, "--limit", 1, "--dry-run").stdout)
    assert planned["eval_tasks"]["practice"]["limit"] == 1
    result = turnsmith("eval", config_file, "--task", "nobody", "--dry-run")
    assert result.exit_code == 2 and "task 'nobody'" in result.stderr


def test_one_task_is_written_in_the_singular(turnsmith, task_folder, tmp_path):
    shutil.copytree(task_folder, tmp_path / "one", symlinks=True)
    save_tasks(tmp_path / "one", load_tasks(task_folder)[:1])
    assert turnsmith("tasks", "stats", tmp_path / "one").stdout.startswith("1 task in ")


@pytest.mark.slow
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


def test_an_ignored_number_of_tasks_is_refused(turnsmith, tmp_path):
    result = turnsmith("tasks", "make", "--practice", "3", "--num", "5", "--out", tmp_path / "tasks")
    assert result.exit_code == 2
    assert "--num" in result.stderr and "--package" in result.stderr and not (tmp_path / "tasks").exists()


@pytest.mark.parametrize("option", [("--split", "heldout"), ("--split", "train"), ("--difficulty", "0")])
def test_an_ignored_practice_option_is_refused(turnsmith, tmp_path, option):
    result = turnsmith("tasks", "make", "--package", "toolz==1.0.0", *option, "--out", tmp_path / "tasks")
    assert result.exit_code == 2
    assert option[0] in result.stderr and "--practice" in result.stderr and not (tmp_path / "tasks").exists()


@pytest.mark.slow
def test_tasks_are_qualified_once_and_the_table_shows_the_verdicts(turnsmith, tmp_path):
    out = tmp_path / "tasks"
    assert turnsmith("tasks", "make", "--practice", "2", "--difficulty", "0", "--out", out).exit_code == 0
    first, broken = load_tasks(out)
    save_tasks(out, [first, broken.model_copy(update={"setup": ["exit 3"]})])
    qualify = ("tasks", "qualify", out, "--repeats", "2", "--sandbox", "subprocess")
    result = turnsmith(*qualify, "--json")
    assert result.exit_code == 0, result.output
    records = json.loads(result.stdout)
    assert [(record["verdict"], record["repeats"]) for record in records] == [("qualified", 2), ("broken set-up", 0)]
    shown = turnsmith(*qualify)
    assert shown.exit_code == 0
    assert "set-up command 'exit 3' of" in shown.stdout
    assert "1 of 2 tasks are qualified" in shown.stdout
    assert "2 of 2 tasks were examined earlier" in shown.stderr
    assert (out / "qualification.jsonl").read_text().count("\n") == 2


def test_the_table_names_tasks_whose_audit_cannot_decide_or_is_not_known(capsys):
    abilities = {"able-1": Ability(), "unable-1": Ability("tests keep their names"), "old-1": None}
    records = [
        Qualification(instance_id=name, key="k", verdict=Verdict.QUALIFIED, audit=ability)
        for name, ability in abilities.items()
    ]
    print_records(records)
    out = capsys.readouterr().out
    _, _, named = out.partition("audit cannot decide")
    assert "unable-1" in named and "able-1 " not in named.replace("unable-1", "")
    assert "old-1" in named and "not known" in named
    assert re.search(r"1 of 3 tasks, 1 .*not known", out)


def test_qualify_fails_with_a_reason_if_no_task_is_fit(turnsmith, task_folder, tmp_path):
    [task, *_] = load_tasks(task_folder)
    shutil.copytree(task_folder, tmp_path / "tasks", symlinks=True)
    never = task.model_copy(update={"FAIL_TO_PASS": task.PASS_TO_PASS[:1], "PASS_TO_PASS": task.PASS_TO_PASS[1:]})
    save_tasks(tmp_path / "tasks", [never])
    result = turnsmith("tasks", "qualify", tmp_path / "tasks", "--repeats", "2", "--sandbox", "subprocess")
    assert result.exit_code == 2
    assert f"{task.instance_id}: no-op passes, " in (result.stderr)


def test_qualify_of_an_empty_file_is_a_usage_error(turnsmith, tmp_path):
    result = turnsmith("tasks", "qualify", tmp_path / "nowhere")
    assert result.exit_code == 2 and str(tmp_path / "nowhere") in result.stderr
    assert turnsmith("tasks", "qualify", tmp_path, "--repeats", "1").exit_code == 2


@pytest.mark.parametrize("folder", ["/nowhere/at/all", "here"])
def test_a_hidden_folder_must_exist(turnsmith, task_folder, tmp_path, monkeypatch, folder):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    result = turnsmith("tasks", "qualify", task_folder, "--hide", folder)
    assert result.exit_code == 2 and f"--hide {folder}: " in result.stderr


@pytest.mark.parametrize(
    ("image", "arguments", "words"),
    [
        (
            "debian",
            [],
            "--sandbox podman",
        ),
        ("", ["--sandbox", "podman"], "--sandbox.image"),
        ("", ["--sandbox.image", "debian"], "--sandbox podman"),
    ],
)
def test_tasks_are_qualified_in_their_own_image_or_not_at_all(
    turnsmith, task_folder, tmp_path, image, arguments, words
):
    tasks = [task.model_copy(update={"image": image}) for task in load_tasks(task_folder)]
    for task in tasks:
        for layer in task.layers:
            (tmp_path / layer).mkdir(parents=True, exist_ok=True)
    save_tasks(tmp_path, tasks)
    result = turnsmith("tasks", "qualify", tmp_path, *arguments)
    assert result.exit_code == 2 and words in result.stderr
    assert not (tmp_path / "qualification.jsonl").exists()


@pytest.mark.slow
def test_tasks_of_an_image_are_examined_in_it(turnsmith, tmp_path):
    """This image has no git: that is no fault of the task, and no pass."""
    engine = ("--sandbox", "podman", "--sandbox.container_engine", find_podman(), "--sandbox.image", IMAGE)
    out = tmp_path / "tasks"
    assert turnsmith("tasks", "make", "--practice", "1", "--difficulty", "0", "--out", out).exit_code == 0
    result = turnsmith("tasks", "qualify", out, "--repeats", "2", "--json", *engine)
    assert result.exit_code == 1, result.output
    [record] = json.loads(result.stdout)
    assert (record["verdict"], record["isolation"]) == ("infrastructure", "container-user")
    assert record["detail"].startswith("git ")


def test_training_on_unqualified_tasks_is_refused(turnsmith, config_file, tmp_path):
    result = turnsmith("run", config_file, "--require_qualified", "true", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "2 of 2 tasks" in result.stderr and "turnsmith tasks qualify" in result.stderr
