"""Real runs with a random model: output, files, and processes after Ctrl-C."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.data_sets.golden_rows import NEBIUS_SWE_AGENT
from support.machine.host_processes import descendants, is_alive, wait_until
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.runs.journal import read_trajectories
from turnsmith.runs.versions import find_versions, read_versions
from turnsmith.tasks.dataset import load_tasks

pytestmark = pytest.mark.slow


def test_an_evaluation_prints_a_table_and_the_next_command(turnsmith, config_file, tmp_path):
    folder = RunFolder(tmp_path / "run")
    result = turnsmith("eval", config_file, "--out", folder.path)
    assert result.exit_code == 0, result.output
    [entry] = json.loads(folder.results.read_text())
    assert (entry["stage"], entry["task_set"], entry["num_tasks"], entry["num_runs"]) == ("base", "practice", 2, 2)
    assert [each.software for each in read_versions(folder)] == [entry["versions"]] == [find_versions()]
    assert "Pass@1 ± SEM" in result.stdout
    assert f"turnsmith show {folder.path}" in result.stdout
    assert not folder.curves.exists() and "curves" not in result.stdout
    assert "base on practice: Pass@1 0.0%" in folder.log.read_text()
    assert turnsmith("show", folder.path, "--trajectory", "eval-base").exit_code == 0


def test_an_evaluation_of_one_task_resumes_with_that_task_only(turnsmith, config_file, heldout_folder, tmp_path):
    folder, name = RunFolder(tmp_path / "run"), load_tasks(heldout_folder)[1].instance_id
    result = turnsmith("eval", config_file, "--task", name, "--limit", 1, "--out", folder.path)
    assert result.exit_code == 0, result.output
    shutil.rmtree(folder.path / "evals")
    assert turnsmith("resume", folder.path).exit_code == 0
    assert list(read_json(folder.result("base", "practice"))["per_task"]) == [name]


def test_an_evaluation_makes_no_training_tasks(turnsmith, config_file, tmp_path):
    assert turnsmith("eval", config_file, "--train_tasks.path", "nowhere", "--out", tmp_path / "run").exit_code == 0


def test_a_run_folder_is_named_after_configuration_and_time(turnsmith, config_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert turnsmith("eval", config_file).exit_code == 0
    [folder] = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"small-\d{8}-\d{6}", folder.name)


def test_repeating_a_finished_command_changes_nothing(turnsmith, config_file, tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert turnsmith("rl", config_file, "--out", folder.path).exit_code == 0
    before = {path: path.read_bytes() for path in folder.path.rglob("*.json*")}
    assert len(list(folder.path.glob("stages/stage1/*/metrics.json"))) == 2
    (folder.iteration("stage1", 1).path / ".checkpoint.1.tmp").mkdir()
    for again in (["rl", config_file, "--out", folder.path], ["resume", folder.path]):
        assert turnsmith(*again).exit_code == 0
    assert {path: path.read_bytes() for path in folder.path.rglob("*.json*")} == before
    assert not list(folder.path.rglob(".checkpoint*"))


def test_a_finished_run_can_be_extended(turnsmith, config_file, tmp_path):
    """The last checkpoint of an extended run equals that of a run with this length from the start."""
    for name, iterations in {"extended": 1, "whole": 2}.items():
        result = turnsmith("rl", config_file, f"--stages.0.iterations={iterations}", "--out", tmp_path / name)
        assert result.exit_code == 0, result.output
    extended, whole = RunFolder(tmp_path / "extended"), RunFolder(tmp_path / "whole")
    result = turnsmith("resume", extended.path, "--stages.0.iterations", "2")
    assert result.exit_code == 0, result.output
    assert "stages.0.iterations" in result.stderr and "stage1@1" in result.stdout
    begun = [line for line in result.stderr.splitlines() if "loading" in line]
    assert "stage1: 1 of 2 iterations" in begun[1]
    assert json.loads(extended.config.read_text()) == json.loads(whole.config.read_text())
    assert len(json.loads(extended.results.read_text())) == 3
    weights = [
        next(folder.iteration("stage1", 1).checkpoint.rglob("*.safetensors")).read_bytes()
        for folder in (extended, whole)
    ]
    assert weights[0] == weights[1]
    assert turnsmith("resume", extended.path, "--seed", "3").exit_code == 2


def test_a_stage_without_signal_stops_with_a_remedy_and_can_be_resumed(turnsmith, config_file, tmp_path):
    folder = RunFolder(tmp_path / "run")
    result = turnsmith("rl", config_file, "--stages.0.max_silent_iterations=1", "--out", folder.path)
    assert result.exit_code == 1
    assert re.search(r"stage1: .*1 iterations.* 0% of rollouts", result.stderr)
    remedy = f"turnsmith resume {folder.path} --stages.0.max_silent_iterations 2"
    assert "easier tasks" in result.stderr and remedy in result.stderr
    assert re.search(r"stage1 .*iteration 1", folder.log.read_text())
    shown = turnsmith("show", folder.path).stdout
    assert "stopped: stage1: " in shown and "not finished: " not in shown
    before = sorted(folder.path.rglob("*"))
    assert turnsmith("resume", folder.path).exit_code == 1
    assert sorted(folder.path.rglob("*")) == before
    result = turnsmith("resume", folder.path, "--stages.0.max_silent_iterations", "3")
    assert (result.exit_code, folder.next_iteration("stage1")) == (0, 2), result.output
    assert not folder.stop_reason.exists() and "stopped" not in turnsmith("show", folder.path).stdout


def test_a_run_sends_its_metrics_to_trackers(turnsmith, config_file, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = RunFolder(tmp_path / "run")
    result = turnsmith("rl", config_file, "--tracking", '["tensorboard"]', "--out", folder.path)
    assert result.exit_code == 0, result.output
    assert f"tensorboard --logdir {folder.tracking('tensorboard')}\n" in result.stdout
    events = accumulator.EventAccumulator(str(folder.tracking("tensorboard"))).Reload()
    assert [event.step for event in events.Scalars("rollouts/turns_mean")] == [1, 2]
    assert [event.step for event in events.Scalars("eval/practice/pass_at_1")] == [0, 2]


def test_a_base_that_resolves_nothing_cannot_be_fine_tuned(turnsmith, config_file, tmp_path):
    result = turnsmith("rft", config_file, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "none of 2 rollouts" in result.stderr


def test_the_base_trains_on_imported_conversations(turnsmith, config_file, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(NEBIUS_SWE_AGENT) + "\n")
    said = tmp_path / "said"
    imported = turnsmith("tasks", "import", "nebius-swe-agent", "--from", rows, "--out", said)
    assert imported.stdout.startswith("imported 1 · refused 0"), imported.output
    result = turnsmith("rft", config_file, "--rft.conversations", said, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    folder = RunFolder(tmp_path / "run")
    assert read_json(folder.iteration("rft", 0).metrics)["conversations/kept"] == 1
    assert folder.iteration("rft", 0).checkpoint.is_dir()


@pytest.mark.usefixtures("obeys_ctrl_c")
@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_all_processes_and_the_run_can_be_resumed(turnsmith, config_file, tmp_path, request_to_end):
    folder = RunFolder(tmp_path / "run")
    command = ["rl", config_file, "--out", folder.path, "--stages.0.iterations=3", "--stages.0.group_size=8"]
    process = subprocess.Popen(
        [sys.executable, "-m", "turnsmith", *command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    journal = folder.iteration("stage1", 0).trajectories
    while not journal.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    running = descendants(process.pid)
    process.send_signal(request_to_end)
    stderr = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + request_to_end, stderr
    assert stderr.count(f"resume with `turnsmith resume {folder.path}`") == stderr.count("turnsmith resume") == 1
    assert stderr.endswith("stopped\n")
    assert "Traceback" not in stderr
    assert running
    wait_until(lambda: not any(map(is_alive, running)))
    assert not [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(os.fspath(tmp_path)) in line]
    kept = list(read_trajectories(journal))
    assert turnsmith("resume", folder.path).exit_code == 0
    assert list(read_trajectories(journal))[: len(kept)] == kept
    assert folder.next_iteration("stage1") == 3
