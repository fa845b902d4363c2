"""A run on two ranks whose driver is killed: it leaves no process and no port, and goes on as if nothing had happened."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from support.cluster.processes import list_descendants, list_ports, wait_for_end
from support.killed_runs import SMALL_AGENT, start_turnsmith, wait_for_trajectories

pytestmark = [pytest.mark.slow, pytest.mark.ranks, pytest.mark.timeout(1_800)]

CONFIG = f"""
seed = 3
model.threads = 1
[trainer]
kind = "fsdp"
num_ranks = 2
[train_tasks]
practice_tasks = 6
difficulty = 0.0
[rollouts]
concurrency = 1   # so that no sum depends on which episodes share a batch
tests_timeout_s = 60.0
[[stages]]
name = "stage1"
iterations = 3
tasks_per_iteration = 4
group_size = 4
batch_size = 2
max_turns = 8
max_context = 1280
length_threshold = 2
zero_advantage = "final"
max_silent_iterations = 9
[stages.optimizer]
learning_rate = 1e-4
warmup_steps = 2
{SMALL_AGENT}"""
ITERATIONS = [f"stages/stage1/iteration-{number:04d}" for number in range(3)]
NUM_TRAJECTORIES = 16
"""Trajectories of an iteration; training begins after the last one."""
MIN_STEPS = 5


def finish(process: "subprocess.Popen[str]") -> None:
    output, _ = process.communicate()
    assert process.returncode == 0, output


def kill_in_training(process: "subprocess.Popen[str]", iteration: Path) -> None:
    """Kill a driver when an iteration has all its trajectories; check that nothing of its ranks and its Ray is left."""
    wait_for_trajectories(process, iteration, NUM_TRAJECTORIES)
    processes = list_descendants(process.pid)
    ports = list_ports(processes)
    assert len(processes) >= 5 and ports  # the keeper, two daemons of Ray, two ranks
    process.kill()
    killed = time.monotonic()
    process.communicate()
    wait_for_end(processes, limit_s=10.0)
    while ports & list_ports():
        assert time.monotonic() < killed + 10.0, f"{ports & list_ports()} are open"
    assert not (iteration / "metrics.json").exists()


def read_losses(run: Path) -> list[dict[str, float]]:
    """Read what the steps of each iteration have measured."""
    metrics = [json.loads((run / iteration / "metrics.json").read_text()) for iteration in ITERATIONS]
    names = "optimizer/steps", "loss/total", "optimizer/grad_norm", "rollouts/tokens_mean"
    return [{name: each[name] for name in names} for each in metrics]


def read_turns(run: Path) -> dict[str, list[tuple[int, int, str]]]:
    """Map trajectory ids to the place of each turn in the tokens, and its text."""
    lines = [line for each in ITERATIONS for line in (run / each / "trajectories.jsonl").read_text().splitlines()]
    return {
        each["trajectory_id"]: [(turn["start"], turn["end"], turn["text"]) for turn in each["turns"]]
        for each in map(json.loads, lines)
    }


def largest_difference(run: Path, other: Path) -> float:
    """Return the largest difference between the final weights of two runs."""
    weights, others = (
        load_file(next((each / ITERATIONS[2] / "checkpoint").glob("*.safetensors"))) for each in (run, other)
    )
    assert weights.keys() == others.keys()
    return max((weights[name] - others[name]).abs().max().item() for name in weights)


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "small.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def unbroken(config) -> Path:
    """Folder of a finished run on two ranks."""
    finish(start_turnsmith("run", config, "--out", config.parent / "unbroken"))
    return config.parent / "unbroken"


def test_a_run_whose_driver_is_killed_leaves_nothing_and_ends_like_an_unbroken_one(config, unbroken):
    broken = config.parent / "broken"
    kill_in_training(start_turnsmith("run", config, "--out", broken), broken / ITERATIONS[1])
    finish(start_turnsmith("resume", broken))
    expected = read_losses(unbroken)
    assert sum(each["optimizer/steps"] for each in expected[1:]) >= MIN_STEPS
    for found, wanted in zip(read_losses(broken), expected, strict=True):
        assert found == pytest.approx(wanted, rel=0, abs=1e-6)
    assert largest_difference(broken, unbroken) <= 1e-6


def test_a_run_on_ranks_has_the_episodes_and_weights_of_a_run_in_one_process(config, unbroken):
    local = config.parent / "local"
    finish(start_turnsmith("run", config, "--trainer.kind", "local", "--trainer.num_ranks", "1", "--out", local))
    turns = read_turns(local)
    assert len(turns) == 3 * NUM_TRAJECTORIES and read_turns(unbroken) == turns
    assert largest_difference(unbroken, local) <= 1e-5
