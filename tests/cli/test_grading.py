"""`grade`: predictions in, the reports of SWE-bench's harness out."""

import json
import re

import pytest

from turnsmith.cli.grading import save_predictions
from turnsmith.runs.new_folders import to_folder_name
from turnsmith.synthesis.repositories import make_patch, to_tree, write_bug_layer
from turnsmith.tasks.dataset import load_tasks, save_tasks
from turnsmith.tasks.predictions import Prediction, write_predictions
from turnsmith.tasks.sets.swe_bench_v5 import write_folder
from turnsmith.types import Task

BUGGY, FIXED = "def double(x):\n    return x\n", "def double(x):\n    return 2 * x\n"
TESTS = "from shop import double\n\ndef test_two(): assert double(2) == 4\n\ndef test_zero(): assert double(0) == 0\n"
GOLD = make_patch("shop.py", BUGGY, FIXED)
PATCHES = {
    "shop-1": GOLD,
    "shop-2": make_patch("shop.py", BUGGY, "def double(x):\n    return 3\n"),
    "shop-3": "",
    "shop-4": "?",
}


@pytest.fixture
def tasks(tmp_path):
    folder = tmp_path / "tasks"
    tree = to_tree({"shop.py": BUGGY, "test_shop.py": TESTS})
    write_bug_layer(folder / "layer", tree, {path: file.content for path, file in tree.items()})
    rows = [
        Task(
            instance_id=f"shop-{n}", repo="shop", base_commit="c", problem_statement="p", layers=["layer"], patch=GOLD,
            FAIL_TO_PASS=["test_shop.py::test_two"], PASS_TO_PASS=["test_shop.py::test_zero"],
        )
        for n in range(1, 6)
    ]  # fmt: skip
    save_tasks(folder, rows)
    return folder


@pytest.fixture
def predictions(tmp_path):
    file = tmp_path / "preds.jsonl"
    write_predictions(file, [Prediction(name, "owner/model", patch) for name, patch in PATCHES.items()])
    return file


def test_grade_writes_reports_of_the_harness(turnsmith, tasks, predictions, tmp_path):
    out = tmp_path / "reports"
    run = turnsmith("grade", predictions, "--tasks", tasks, "--out", out, "--json", "--workers", 2)
    assert run.exit_code == 0, run.stderr
    report = json.loads((out / "owner__model.preds.json").read_text())
    assert report == json.loads(run.stdout)
    assert report == {
        "total_instances": 5, "submitted_instances": 4, "completed_instances": 2, "resolved_instances": 1,
        "unresolved_instances": 1, "empty_patch_instances": 1, "error_instances": 1,
        "submitted_ids": ["shop-1", "shop-2", "shop-3", "shop-4"], "completed_ids": ["shop-1", "shop-2"],
        "incomplete_ids": ["shop-5"], "resolved_ids": ["shop-1"], "unresolved_ids": ["shop-2"],
        "empty_patch_ids": ["shop-3"], "error_ids": ["shop-4"], "infra_failure_instances": 0, "infra_failure_ids": [],
        "ambiguous_failure_instances": 0, "ambiguous_failure_ids": [], "failure_reasons": {}, "schema_version": 2,
    }  # fmt: skip
    place = out / "logs/run_evaluation/preds/owner__model"
    assert (place / "shop-1/patch.diff").read_text() == GOLD
    assert "FAILED test_shop.py::test_two" in (place / "shop-2/test_output.txt").read_text()
    one = json.loads((place / "shop-2/report.json").read_text())["shop-2"]
    assert (one["resolved"], one["patch_successfully_applied"], one["patch_is_None"]) == (False, True, False)
    assert one["tests_status"]["FAIL_TO_PASS"] == {"success": [], "failure": ["test_shop.py::test_two"]}
    assert not (place / "shop-4/report.json").exists()
    assert "Only garbage was found" in (place / "shop-4/run_instance.log").read_text()
    assert not (place / "shop-3").exists()


def test_graded_predictions_are_compared(turnsmith, tasks, predictions, tmp_path, monkeypatch):
    """A resolves shop-1; B resolves shop-1 and shop-2. The patch of A for shop-4 does not apply, and B lacks that task."""
    monkeypatch.chdir(tmp_path)
    better = tmp_path / "better.jsonl"
    write_predictions(better, [Prediction(f"shop-{number}", "owner/model", GOLD) for number in (1, 2)])
    addresses = [predictions, better]
    ungraded = turnsmith("compare", *addresses)
    assert ungraded.exit_code == 2 and "preds.jsonl has no verdicts: grade it by `turnsmith grade" in ungraded.stderr
    for each in addresses:
        assert turnsmith("grade", each, "--tasks", tasks).exit_code == 0
    [found] = json.loads(turnsmith("compare", *addresses, "--json").stdout)
    assert found["gained"] == {"shop-2": [0, 1]} and found["lost"] == {} and found["num_tasks"] == 2
    [tasks_only_in_a] = found["left_out"].values()
    assert tasks_only_in_a == ["shop-3", "shop-4"] and found["num_repositories"] == 1
    reports = turnsmith("compare", "owner__model.preds.json", "owner__model.better.json", "--json")
    assert json.loads(reports.stdout)[0]["gained"] == found["gained"]
    write_predictions(better, [Prediction("shop-1", "owner/model", PATCHES["shop-2"])])
    assert "better.jsonl changed after it was graded" in turnsmith("compare", *addresses).stderr


def add_odd(folder, **columns):
    """Add a task that cannot be graded."""
    odd = load_tasks(folder)[0].model_copy(update={"instance_id": "shop-6", "log_parser": "ward"} | columns)
    save_tasks(folder, [*load_tasks(folder), odd])


def test_ungradable_task_stops_no_other_task(turnsmith, tasks, tmp_path):
    add_odd(tasks)
    file = tmp_path / "preds.jsonl"
    write_predictions(file, [Prediction(name, "model", GOLD) for name in ("shop-1", "shop-6")])
    command = ["grade", file, "--tasks", tasks, "--out", tmp_path / "reports", "--json"]
    one = turnsmith(*command, "--task", "shop-1", "--run", "one")
    assert one.exit_code == 0 and json.loads(one.stdout)["resolved_ids"] == ["shop-1"], one.stderr
    assert re.search(r"1 of 6 tasks cannot be graded.* ward.*shop-6", one.stderr)
    both = turnsmith(*command)
    report = json.loads(both.stdout)
    assert (both.exit_code, report["total_instances"], report["error_ids"]) == (1, 6, ["shop-6"])
    assert re.search(r"shop-6 .*log parser 'ward'", both.stderr)
    named = turnsmith(*command, "--task", "shop-6")
    assert named.exit_code == 2 and re.search(r"shop-6 .*log parser 'ward'", named.stderr)


def test_unselected_image_task_does_not_prevent_grading(turnsmith, tasks, predictions, tmp_path):
    add_odd(tasks, log_parser="pytest", image="octo/shop:1")
    command = ["grade", predictions, "--tasks", tasks, "--out", tmp_path / "reports", "--json"]
    assert turnsmith(*command, "--task", "shop-1").exit_code == 0
    write_predictions(predictions, [Prediction("shop-6", "model", GOLD)])
    assert re.search(r"shop-6 .*image octo/shop:1", turnsmith(*command).stderr)


def test_verdict_is_kept_and_refused_for_another_patch(turnsmith, tasks, predictions, tmp_path):
    command = ["grade", predictions, "--tasks", tasks, "--out", tmp_path / "reports"]
    assert turnsmith(*command, "--limit", 1).exit_code == 0
    file = tmp_path / "reports/logs/run_evaluation/preds/owner__model/shop-1/report.json"
    before = file.stat().st_mtime_ns
    assert turnsmith(*command, "--task", "shop-1", "--task", "shop-3").exit_code == 0
    assert file.stat().st_mtime_ns == before
    write_predictions(predictions, [Prediction("shop-1", "owner/model", PATCHES["shop-2"])])
    again = turnsmith(*command)
    assert again.exit_code == 2 and "another patch" in again.stderr
    assert turnsmith(*command, "--run", "second").exit_code == 0


def test_swe_agent_folder_is_graded_under_its_name(turnsmith, tasks, tmp_path):
    folder = tmp_path / "model__t-0.00__p-0.95"
    (folder / "shop-1").mkdir(parents=True)
    row = {"instance_id": "shop-1", "model_name_or_path": "m", "model_patch": GOLD}
    (folder / "shop-1/shop-1.pred").write_text(json.dumps(row))
    run = turnsmith("grade", folder, "--tasks", tasks, "--out", tmp_path / "reports", "--json")
    assert run.exit_code == 0 and json.loads(run.stdout)["resolved_ids"] == ["shop-1"], run.stderr
    assert (tmp_path / "reports/m.model__t-0.00__p-0.95.json").exists()


def test_last_prediction_of_a_task_counts(turnsmith, tasks, predictions, tmp_path):
    write_predictions(predictions, [Prediction("shop-1", "m", patch) for patch in ("?", GOLD)])
    run = turnsmith("grade", predictions, "--tasks", tasks, "--out", tmp_path, "--json")
    assert run.exit_code == 0 and "1 of 2 predictions" in run.stderr
    assert json.loads(run.stdout)["resolved_ids"] == ["shop-1"]


@pytest.mark.parametrize("patch", [GOLD.partition("\n")[2], GOLD.replace("\n", "\r\n"), f"Done:\n```\n{GOLD}```\n"])
def test_patch_that_only_a_fallback_applies_is_graded(turnsmith, tasks, predictions, tmp_path, patch):
    write_predictions(predictions, [Prediction("shop-1", "m", patch)])
    run = turnsmith("grade", predictions, "--tasks", tasks, "--out", tmp_path, "--json")
    assert json.loads(run.stdout)["resolved_ids"] == ["shop-1"]


def test_fallback_applies_no_test_infrastructure(turnsmith, tasks, predictions, tmp_path):
    bend = "--- /dev/null\n+++ b/conftest.py\n@@ -0,0 +1,2 @@\n+import shop\n+shop.double = lambda x: 2 * x\n"
    write_predictions(predictions, [Prediction("shop-1", "m", bend)])
    run = turnsmith("grade", predictions, "--tasks", tasks, "--out", tmp_path, "--json")
    assert json.loads(run.stdout)["unresolved_ids"] == ["shop-1"]
    report = json.loads((tmp_path / "logs/run_evaluation/preds/m/shop-1/report.json").read_text())["shop-1"]
    assert report["turnsmith"]["flags"] == ["test-infrastructure"]


ODD_MODEL = "../m\x1b[2J"
ODD_IDS = ["..", "../up", "a\x1b[2Jb", "a\nb", "a\u202eb", "x" * 300]


def test_unusual_id_stays_in_its_folder_and_is_printed_safely(turnsmith, tasks, predictions, tmp_path):
    first = json.loads((tasks / "tasks.jsonl").read_text().splitlines()[0])
    save_tasks(tasks, [Task.model_validate({**first, "instance_id": name}) for name in ODD_IDS])
    write_predictions(predictions, [Prediction(name, ODD_MODEL, "?") for name in ODD_IDS])
    out = tmp_path / "deep/down/reports"
    run = turnsmith("grade", predictions, "--tasks", tasks, "--out", out)
    assert run.exit_code == 0, run.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "preds.jsonl", "tasks"]
    assert [path.name for path in (tmp_path / "deep/down").iterdir()] == ["reports"]
    folders = [*(out / "logs/run_evaluation/preds" / to_folder_name(ODD_MODEL)).iterdir()]
    assert len(folders) == len(ODD_IDS) and all((folder / "patch.diff").exists() for folder in folders)
    assert all(path.name.isprintable() for path in out.rglob("*"))
    assert all(letter.isprintable() or letter == "\n" for letter in run.stdout + run.stderr)


def test_unusual_id_stays_in_the_folder_of_an_export(turnsmith, tasks, tmp_path):
    first = json.loads((tasks / "tasks.jsonl").read_text().splitlines()[0])
    save_tasks(tasks, [Task.model_validate({**first, "instance_id": name}) for name in ODD_IDS])
    out = tmp_path / "deep/down/exported"
    run = turnsmith("tasks", "export", tasks, "--as", "harbor", "--out", out)
    assert run.exit_code == 0, run.stderr
    for name in ODD_IDS:
        write_folder({"instance_id": name, "FAIL_TO_PASS": [], "PASS_TO_PASS": []}, out)
    assert [path.name for path in (tmp_path / "deep/down").iterdir()] == ["exported"]
    assert len([*out.glob("tasks/*/task.yaml")]) == len([*out.glob("*/task.toml")]) == len(ODD_IDS)
    assert all(path.name.isprintable() for path in out.rglob("*"))


@pytest.mark.parametrize("as_set", ["harbor", "swe-bench"])
@pytest.mark.parametrize("place", [".", "layer", "layer/deep"])
def test_export_into_the_task_folder_is_refused(turnsmith, tasks, as_set, place):
    before = sorted(tasks.rglob("*"))
    run = turnsmith("tasks", "export", tasks / "tasks.jsonl", "--as", as_set, "--out", tasks / place)
    assert run.exit_code == 2 and "tasks" in run.stderr and "another folder" in run.stderr
    assert sorted(tasks.rglob("*")) == before


@pytest.mark.parametrize("place", ["/proc/nowhere", "preds.jsonl/reports"])
def test_error_names_a_folder_that_cannot_be_made(turnsmith, tasks, predictions, tmp_path, place):
    run = turnsmith("grade", predictions, "--tasks", tasks, "--out", tmp_path / place)
    assert run.exit_code == 2 and place in run.stderr and "another" in run.stderr


def test_infrastructure_fault_is_named_without_a_verdict(turnsmith, tasks, predictions, tmp_path):
    git = tasks / "environment/bin/git"
    git.parent.mkdir(parents=True)
    git.write_text('#!/bin/sh\ncase "$*" in *apply*) kill -9 $$;; esac\nexec /usr/bin/git "$@"\n')
    git.chmod(0o755)
    first = json.loads((tasks / "tasks.jsonl").read_text().splitlines()[0])
    save_tasks(tasks, [Task.model_validate({**first, "environment": "environment"})])
    write_predictions(predictions, [Prediction("shop-1", "m", GOLD)])
    run = turnsmith("grade", predictions, "--tasks", tasks, "--out", tmp_path, "--json")
    if "--sandbox.kind local" in run.stderr:
        pytest.skip("these sandboxes show no environment of a task")
    assert run.exit_code == 1 and "shop-1" in run.stderr and "137" in run.stderr, run.stderr
    assert json.loads(run.stdout)["error_ids"] == ["shop-1"]


def test_predictions_for_unknown_tasks_need_skip_unknown(turnsmith, tasks, predictions, tmp_path):
    write_predictions(predictions, [Prediction(name, "m", "") for name in ("shop-1", "django__django-1")])
    command = ["grade", predictions, "--tasks", tasks, "--out", tmp_path / "reports"]
    refused = turnsmith(*command)
    assert refused.exit_code == 2 and "1 of 2 predictions" in refused.stderr
    assert "'django__django-1'" in refused.stderr and not (tmp_path / "reports").exists()
    assert turnsmith(*command, "--skip-unknown").exit_code == 0


@pytest.mark.parametrize(("option", "value"), [("--run", "../x"), ("--run", "."), ("--task", "shop-9")])
def test_invalid_name_is_refused(turnsmith, tasks, predictions, option, value):
    run = turnsmith("grade", predictions, "--tasks", tasks, option, value)
    assert run.exit_code == 2 and value in run.stderr


def test_export_writes_one_file_of_patches_for_each_run(run_folder, tmp_path):
    files = save_predictions(run_folder, "tiny", tmp_path / "preds.jsonl")
    assert [file.name for file in files] == ["preds-0.jsonl", "preds-1.jsonl"]
    row = json.loads(files[0].read_text())
    assert row.keys() == {"instance_id", "model_name_or_path", "model_patch"}
    assert row["model_patch"].startswith("diff --git a/x.py b/x.py\n") and row["model_name_or_path"] == "tiny"


@pytest.mark.parametrize("name", ["preds.jsonl", "preds-0.jsonl"])
def test_predictions_are_not_overwritten(turnsmith, tmp_path, name):
    (tmp_path / name).write_text("mine")
    run = turnsmith("eval", tmp_path / "none.toml", "--predictions", tmp_path / "preds.jsonl")
    assert run.exit_code == 2 and str(tmp_path / name) in run.stderr


CONFIG = """
[eval_tasks.practice]
practice_tasks = 1
split = "heldout"
[agent]
prompts = "brief"
max_turns = 1
max_context = 1536
max_new_tokens = 40
[eval]
num_runs = 1
k = 1
"""


@pytest.mark.slow
def test_exported_predictions_can_be_graded(turnsmith, tmp_path):
    (tmp_path / "small.toml").write_text(CONFIG)
    file = tmp_path / "preds.jsonl"
    run = turnsmith("eval", tmp_path / "small.toml", "--out", tmp_path / "run", "--predictions", file)
    assert run.exit_code == 0 and str(file) in run.stdout, run.stderr
    assert len(file.read_text().splitlines()) == 1
    tasks = tmp_path / "run/tasks/practice"
    assert turnsmith("grade", file, "--tasks", tasks, "--out", tmp_path / "reports").exit_code == 0
    assert (tmp_path / "reports/tiny.preds.json").exists()
