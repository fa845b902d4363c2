"""A run that imitates demonstrations is killed in cold start and RFT, and ends with the losses of an unkilled run."""

import json
import signal
import time
from pathlib import Path

import pytest

from support.killed_runs import SMALL_AGENT, start_turnsmith

PARTS = ("cold_start", "rft")
KILLS_EACH = 1
IMITATION = """
conversations = "demonstrations"
batch_size = 2
epochs = 2
max_context = 4096
save_minutes = 0
"""
CONFIG = f"""
seed = 3
model.threads = 1
[rollouts]
concurrency = 4
tests_timeout_s = 60.0
[cold_start]{IMITATION}
[rft]{IMITATION}
{SMALL_AGENT.replace("1280", "4096")}"""


def run(*arguments):
    process = start_turnsmith(*arguments)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return output


def kill_after(step: int, saves: Path, *arguments: object) -> None:
    """Start a command and kill it as soon as it has saved its training after this step."""
    process = start_turnsmith(*arguments)
    while not any(int(path.name) >= step for path in saves.glob("[0-9]*") if path.is_dir()):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def read_losses(out: Path, part: str) -> list[float]:
    steps = json.loads((out / "stages" / part / "iteration-0000" / "steps.json").read_text())
    return [step["loss/nll"] for step in steps]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_change_no_loss(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(CONFIG)
    run("tasks", "make", "--practice", 8, "--out", "tasks", "--seed", 5)
    run("tasks", "demonstrate", "tasks", "--out", "demonstrations", "--config", "run.toml", "--agent.max_turns", 12)
    run("run", "run.toml", "--out", "whole")
    for part in PARTS:
        for step in range(1, KILLS_EACH + 1):
            is_new = not Path("killed").exists()
            command = ["run", "run.toml", "--out", "killed"] if is_new else ["resume", "killed"]
            kill_after(step, Path("killed") / "stages" / part / "iteration-0000" / "saves", *command)
    output = run("resume", "killed")
    assert f"RFT: continues after step {KILLS_EACH}" in output
    for part in PARTS:
        whole = read_losses(Path("whole"), part)
        assert len(whole) == 8
        assert read_losses(Path("killed"), part) == pytest.approx(whole, abs=1e-6)
    card = run("export", "killed", "--out", "exported") and Path("exported/README.md").read_text()
    assert (
        "| cold_start | 1 | 8 | 8 | 8 |" in card and "| conversations | training (rft) | demonstrations | 8 |" in card
    )
