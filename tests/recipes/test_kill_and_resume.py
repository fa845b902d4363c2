"""A run that is killed three times, each time without warning, finishes, and what was finished before stays as it was."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

from pytest import fixture, mark

CONFIG = """
seed = 3
[train_tasks]
practice_tasks = 6
difficulty = 0.0
[eval_tasks.practice]
practice_tasks = 4
split = "heldout"
difficulty = 0.0
[agent]
prompts = "brief"
max_turns = 8
max_context = 1280
max_new_tokens = 96
window_lines = 10
max_observation_tokens = 320
[rollouts]
concurrency = 16
tests_timeout_s = 30.0
[rft]
rollouts_per_task = 8
batch_size = 8
max_turns = 8
max_context = 1280
[rft.optimizer]
learning_rate = 3e-4
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
"""
WAITS_S = (6.0, 25.0)


@fixture
def start(tmp_path):
    """Start the run, or resume it, as a process of its own."""
    config, out = tmp_path / "small.toml", tmp_path / "run"
    config.write_text(CONFIG)

    def start() -> subprocess.Popen[bytes]:
        begun = (out / "config.json").exists()
        arguments = ["resume", out] if begun else ["run", config, "--out", out]
        command = [sys.executable, "-m", "turnsmith", *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    return start


def finished(out: Path) -> dict[Path, bytes]:
    """What is done, byte by byte."""
    return {path: path.read_bytes() for name in ("metrics.json", "result.json") for path in out.rglob(name)}


@mark.slow
@mark.timeout(600)
def test_a_run_killed_three_times_finishes_and_finished_iterations_stay_as_they_were(start, tmp_path):
    out, rng = tmp_path / "run", random.Random(11)
    for _ in range(3):
        process = start()
        time.sleep(rng.uniform(*WAITS_S))
        process.kill()
        process.communicate()
        before = finished(out)
    process = start()
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output.decode()
    after = finished(out)
    assert before.items() <= after.items()
    assert {path.parent.name for path in after if path.name == "metrics.json"} == {
        f"iteration-{index:04d}" for index in range(3)
    }
    trajectories = (out / "stages/stage1/iteration-0002/trajectories.jsonl").read_text().splitlines()
    names = [json.loads(line)["trajectory_id"] for line in trajectories]
    assert len(names) == len(set(names)) == 16
