"""`grade` compared with the evaluation of the package swebench: same predictions, same reports."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.grading.odd_predictions import FAIL_TO_PASS, GOLD, KINDS, PASS_TO_PASS, SKIPS, TREE, add_file
from support.grading.swebench_package import find_package
from support.grading.swebench_runs import LIMIT_S
from turnsmith.synthesis.repositories import to_tree, write_bug_layer
from turnsmith.tasks.dataset import save_tasks
from turnsmith.types import Task

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
COMMAND = "python -m pytest -rA -p no:cacheprovider"
SCRIPT = f"""#!/bin/bash
set -uxo pipefail
git checkout HEAD -- test_shop.py
: '>>>>> Start Test Output'
PATH={Path(sys.executable).parent}:$PATH {COMMAND} test_shop.py
: '>>>>> End Test Output'
git checkout HEAD -- test_shop.py"""
OF_DOCKER = {"unstopped_instances", "unstopped_containers", "unremoved_images"}
FILES = ["eval.sh", "patch.diff", "report.json", "run_instance.log", "test_output.txt"]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return find_package(tmp_path_factory.mktemp("package"))


def to_id(kind):
    return f"shop__{kind.replace(' ', '-').replace(',', '')}"


def write_rows(folder, kinds):
    """Write tasks, rows and a tree for one repository; the last row has no prediction."""
    tree = to_tree(TREE)
    write_bug_layer(folder / "tasks/layer", tree, {path: file.content for path, file in tree.items()})
    rows = [
        {"instance_id": to_id(kind), "repo": "shop", "FAIL_TO_PASS": FAIL_TO_PASS, "PASS_TO_PASS": PASS_TO_PASS}
        for kind in [*kinds, "left out"]
    ]
    ours = {"base_commit": "c", "problem_statement": "p", "layers": ["layer"], "test_command": COMMAND, "patch": GOLD}
    save_tasks(folder / "tasks", [Task(**row, **ours, status_rules="swe-bench") for row in rows])
    theirs = {"image": "", "version": "1", "log_parser": "parse_log_pytest", "eval_type": "pass_and_fail"}
    (folder / "rows.json").write_text(json.dumps([{**row, **theirs, "eval_script": SCRIPT} for row in rows]))
    for path, text in TREE.items():
        (folder / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tree" / path).write_bytes(text.encode())


def write_predictions(folder, predictions):
    rows = [{"instance_id": name, "model_name_or_path": "o/m", "model_patch": patch} for name, patch in predictions]
    (folder / "preds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def run_swebench(package, folder, *options):
    command = [
        sys.executable,
        Path(__file__).parents[1] / "support/grading/swebench_runs.py",
        package,
        folder,
        *options,
    ]
    return subprocess.run(command, capture_output=True, text=True)


def run_ours(turnsmith, folder):
    command = ["grade", folder / "preds.jsonl", "--tasks", folder / "tasks", "--out", folder / "ours", "--workers", 2]
    return turnsmith(*command, "--timeout", LIMIT_S)


def read_summary(folder):
    return json.loads((folder / "o__m.preds.json").read_text())


def find_logs(folder):
    return folder / "logs/run_evaluation/preds/o__m"


def read_report(place):
    """Return the report's columns of one prediction; None without a report."""
    if not (place / "report.json").exists():
        return None
    (report,) = json.loads((place / "report.json").read_text()).values()
    return {name: value for name, value in report.items() if name != "turnsmith"}


@pytest.fixture(scope="module")
def evaluated(package, tmp_path_factory, turnsmith):
    """Return a folder with reports of both graders for all kinds of predictions, one of them twice."""
    folder = tmp_path_factory.mktemp("evaluated")
    write_rows(folder, [*KINDS, "twice"])
    twice = [(to_id("twice"), GOLD), (to_id("twice"), KINDS["unresolved"])]
    write_predictions(folder, [*twice[:1], *((to_id(kind), patch) for kind, patch in KINDS.items()), *twice[1:]])
    theirs = run_swebench(package, folder)
    assert theirs.returncode == 0, theirs.stderr
    ours = run_ours(turnsmith, folder)
    assert ours.exit_code == 0, ours.stderr
    return folder


def test_report_of_a_run_equals_that_of_swebench(evaluated):
    theirs = {name: value for name, value in read_summary(evaluated).items() if name not in OF_DOCKER}
    assert read_summary(evaluated / "ours") == theirs
    assert len(KINDS) >= 40 and all(theirs[f"{name}_ids"] for name in ("resolved", "unresolved", "error", "incomplete"))


@pytest.mark.parametrize("kind", [*KINDS, "twice"])
def test_files_of_a_prediction_equal_those_of_swebench(evaluated, kind):
    ours, theirs = (find_logs(folder) / to_id(kind) for folder in (evaluated / "ours", evaluated))
    assert read_report(ours) == read_report(theirs)
    assert [name for name in FILES if (ours / name).exists()] == [name for name in FILES if (theirs / name).exists()]
    if (theirs / "patch.diff").exists() and kind != "no text":
        assert (ours / "patch.diff").read_bytes() == (theirs / "patch.diff").read_bytes()


def test_swebench_reads_the_same_results_from_the_logs(package, evaluated, tmp_path):
    for name in ("rows.json", "preds.jsonl"):
        shutil.copy(evaluated / name, tmp_path / name)
    shutil.copytree(evaluated / "ours/logs", tmp_path / "logs")
    run = run_swebench(package, tmp_path, "rewrite")
    assert run.returncode == 0, run.stderr
    for kind in KINDS:
        if ours := read_report(find_logs(evaluated / "ours") / to_id(kind)):
            assert read_report(find_logs(tmp_path) / to_id(kind)) == ours, kind


def test_both_graders_refuse_unknown_tasks(package, turnsmith, tmp_path):
    write_rows(tmp_path, ["resolved"])
    write_predictions(tmp_path, [(to_id("resolved"), GOLD), ("nowhere-1", GOLD)])
    assert "not found in dataset" in run_swebench(package, tmp_path).stderr
    ours = run_ours(turnsmith, tmp_path)
    assert ours.exit_code == 2 and "nowhere-1" in ours.stderr


GUARDED = {
    "a conftest": GOLD.replace("2 * x", "3 * x")
    + add_file("conftest.py", "import builtins", "import shop", "shop.double = lambda x: 2 * x"),
    "a link out of the tree": GOLD + add_file("link", "/etc/passwd", mode=120000) + "\\ No newline at end of file\n",
}


@pytest.mark.parametrize("kind", GUARDED)
def test_patch_of_test_infrastructure_resolves_only_for_swebench(package, turnsmith, tmp_path, kind):
    write_rows(tmp_path, [kind])
    write_predictions(tmp_path, [(to_id(kind), GUARDED[kind])])
    assert run_swebench(package, tmp_path).returncode == 0 and run_ours(turnsmith, tmp_path).exit_code == 0
    assert read_summary(tmp_path)["resolved_instances"] == 1
    assert read_summary(tmp_path / "ours")["resolved_instances"] == 0


def test_only_turnsmith_reports_a_skipped_test_by_name(package, turnsmith, tmp_path):
    write_rows(tmp_path, ["skips"])
    write_predictions(tmp_path, [(to_id("skips"), SKIPS)])
    assert run_swebench(package, tmp_path).returncode == 0 and run_ours(turnsmith, tmp_path).exit_code == 0
    ours, theirs = (
        read_report(find_logs(folder) / to_id("skips"))["tests_status"]["PASS_TO_PASS"]
        for folder in (tmp_path / "ours", tmp_path)
    )
    assert ours["success"] == PASS_TO_PASS and theirs["success"] == PASS_TO_PASS[1:]
