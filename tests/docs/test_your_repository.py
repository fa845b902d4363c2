"""Test that runs every command of docs/your-repository.md in order, on fewer tasks."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.repositories.release_histories import write_releases
from turnsmith.runs.folder import RunFolder, read_json

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/your-repository.md"
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
FEWER = {
    "turnsmith tasks qualify tasks/mined": "turnsmith tasks qualify tasks/mined --repeats 2",
    "tasks make --practice 96": "tasks make --practice 24",
    "turnsmith tasks qualify tasks/practice": "turnsmith tasks qualify tasks/practice --repeats 2",
    "turnsmith run configs/own-repository.toml": (
        "turnsmith run configs/own-repository.toml --stages.0.tasks_per_iteration 6 --eval_tasks.practice.practice_tasks 8"
    ),
}
"""Command, or part of one, in the page → the same with fewer tasks and repetitions."""
RELEASES = "1.12.1 1.13.0 1.13.1 1.14.0 1.15.0 1.16.0 1.17.0 1.18.0 1.19.0 1.20.1 1.20.2 1.21.0 1.21.1 1.22.0 1.22.1"


@pytest.fixture
def repository(tmp_path):
    """Return the clone named by `TURNSMITH_REPOSITORY`, or else a history of fifteen releases of parse."""
    given = os.environ.get("TURNSMITH_REPOSITORY")
    return Path(given) if given else write_releases(tmp_path / "parse", "parse", RELEASES.split())


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_following_the_page_ends_in_an_evaluated_checkpoint(repository, tmp_path):
    place = tmp_path / "place"
    shutil.copytree(ROOT / "configs", place / "configs")
    page = PAGE.read_text(encoding="utf-8")
    script = "\n".join(BLOCK.findall(page)).replace("REPO=~/code/click", f"REPO={repository}")
    for command, smaller in FEWER.items():
        assert script.count(f"{command}\n") + script.count(f"{command} ") == 1, command
        script = script.replace(command, smaller)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    followed = subprocess.run(
        ["bash", "-euxc", script],
        cwd=place,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert followed.returncode == 0, followed.stdout[-3000:] + followed.stderr[-3000:]
    run = RunFolder(place / "runs/own")
    results = {(each["stage"], each["task_set"]): each for each in read_json(run.results)}
    assert {(stage, tasks) for stage in ("base", "stage1") for tasks in ("mine", "practice")} <= set(results)
    assert all(each["num_lost"] == 0 for each in results.values())
    assert results["stage1", "mine"]["num_tasks"] >= 2
    [checkpoint] = re.findall(r"`(runs/own/\S+/checkpoint)`", page)
    assert (place / checkpoint / "config.json").is_file()
