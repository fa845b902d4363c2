"""A run that is killed four times finishes; finished files stay unchanged, and each process loads the last weights."""

import json
import signal
import subprocess
from pathlib import Path

import torch
from pytest import fixture, mark

from support.killed_runs import SMALL_AGENT, start_turnsmith, wait_for_trajectories

CONFIG = f"""
seed = 3
model.threads = 1
[train_tasks]
practice_tasks = 6
difficulty = 0.0
[eval_tasks.practice]
practice_tasks = 4
split = "heldout"
difficulty = 0.0
[rollouts]
concurrency = 16
tests_timeout_s = 30.0
[rft]
rollouts_per_task = 12
batch_size = 8
max_turns = 8
max_context = 1280
[rft.optimizer]
learning_rate = 3e-4
warmup_steps = 0
schedule = "constant"
[[stages]]
name = "stage1"
iterations = 3
tasks_per_iteration = 4
group_size = 4
batch_size = 8
max_turns = 8
max_context = 1280
length_threshold = 5
zero_advantage = "final"
[stages.optimizer]
learning_rate = 1e-4
[eval]
num_runs = 1
k = 1
{SMALL_AGENT}"""
STAGE = "stages/stage1/iteration-{:04d}"
FINE_TUNING = "stages/rft/iteration-0000"
MOMENTS = ((FINE_TUNING, 20), (STAGE.format(0), 3), (STAGE.format(1), 3), (STAGE.format(2), 9))
"""Moments of the kills: during RFT's rollouts, right after RFT, early in an iteration, late in the last one."""


@fixture
def start(tmp_path):
    """Start or resume the run in a new process."""
    config, out = tmp_path / "small.toml", tmp_path / "run"
    config.write_text(CONFIG)
    processes: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        begun = (out / "config.json").exists()
        arguments = ["resume", out] if begun else ["run", config, "--out", out]
        processes.append(start_turnsmith(*arguments))
        return processes[-1]

    yield start
    for process in processes:
        with process:
            process.kill()


def kill_at(process: subprocess.Popen[str], iteration: Path, num_trajectories: int) -> None:
    """Kill the process when an iteration has this number of trajectories. Fails if it ends earlier."""
    wait_for_trajectories(process, iteration, num_trajectories)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (iteration / "metrics.json").exists()


def finished(out: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and time of finished files; a rewritten file differs at least in its time."""
    paths = (path for name in ("metrics.json", "result.json") for path in out.rglob(name))
    return {str(path.relative_to(out)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def read(path: Path) -> dict[str, float]:
    return json.loads((path / "metrics.json").read_text())


def policy_versions(iteration: Path) -> set[int]:
    """Return the policy versions that sampled an iteration."""
    lines = (iteration / "trajectories.jsonl").read_text().splitlines()
    return {turn["policy_version"] for line in lines for turn in json.loads(line)["turns"]}


def check_counters(out: Path) -> None:
    """Each iteration was sampled from the weights of all earlier steps, in whichever process they were made."""
    assert policy_versions(out / FINE_TUNING) == {0}
    version = expected = int(read(out / FINE_TUNING)["policy/version"])
    for iteration in map(STAGE.format, range(3)):
        assert policy_versions(out / iteration) == {expected}
        expected += int(read(out / iteration)["optimizer/steps"])
    state = torch.load(out / STAGE.format(2) / "checkpoint" / "trainer.pt", weights_only=True)
    assert 0 < version < expected == state["policy_version"]
    assert state["num_steps"] == expected - version


@mark.slow
@mark.timeout(1_800)
def test_a_run_killed_four_times_finishes_and_finished_iterations_stay_as_they_were(start, tmp_path):
    out = tmp_path / "run"
    kept: list[dict[str, tuple[bytes, int]]] = []
    for iteration, num_trajectories in MOMENTS:
        kill_at(start(), out / iteration, num_trajectories)
        kept.append(finished(out))
    process = start()
    output, _ = process.communicate(timeout=1_200)
    assert process.returncode == 0, output
    after = finished(out)
    assert all(before and before.items() <= after.items() for before in kept)
    assert [f"{STAGE.format(index)}/metrics.json" in kept[-1] for index in range(3)] == [True, True, False]
    assert b"time/collect_s" in kept[-1][f"{STAGE.format(0)}/metrics.json"][0]
    assert {f"{STAGE.format(index)}/metrics.json" for index in range(3)} <= after.keys()
    trajectories = (out / STAGE.format(2) / "trajectories.jsonl").read_text().splitlines()
    names = [json.loads(line)["trajectory_id"] for line in trajectories]
    assert len(names) == len(set(names)) == 16
    check_counters(out)
