"""Real rows of public sets without their images, from a row to a figure; where rows and histories are at hand.

`TURNSMITH_ROWS` names a folder with the files of `SETS`, and `TURNSMITH_HISTORIES` one of git repositories, OWNER__NAME each.
"""

import json
import os
from pathlib import Path

import pytest

from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import read_trajectories
from turnsmith.tasks.dataset import load_tasks
from turnsmith.types import Outcome

ROWS, HISTORIES = os.environ.get("TURNSMITH_ROWS"), os.environ.get("TURNSMITH_HISTORIES")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not (ROWS and HISTORIES), reason="no real rows, or no histories, are at hand"),
]
SETS = {
    "swe-bench-lite": "swe-bench",
    "swe-bench-verified": "swe-bench",
    "swe-rebench-v1": "swe-rebench",
    "swe-gym": "swe-gym",
    "swe-gym.variant-string-lists": "swe-gym",
}
CONFIG = """
model.path = "{model}"
model.threads = 1
eval_tasks.rebuilt.path = "{tasks}"
agent = {{ prompts = "brief", max_context = 65536, max_new_tokens = 32768, max_turns = 3 }}
engine.kind = "support.engines.scripted_agents:{agent}"
rollouts = {{ concurrency = 2, tests_timeout_s = 1800.0 }}
eval = {{ num_runs = 1, k = 1 }}
"""


@pytest.fixture(scope="module")
def imported(turnsmith, tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported") / "tasks"
    for name, kind in SETS.items():
        result = turnsmith("tasks", "import", kind, "--from", f"{ROWS}/{name}.jsonl", "--out", folder)
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def histories():
    return {path.name.replace("__", "/"): path for path in Path(HISTORIES).iterdir()}


@pytest.fixture(scope="module")
def rebuilt(turnsmith, imported, histories, tmp_path_factory):
    """Every task whose history is here."""
    here = [task for task in load_tasks(imported) if task.repo in histories]
    named = [word for task in here for word in ("--task", task.instance_id)]
    paths = [word for task in here for word in ("--history", f"{task.repo}={histories[task.repo]}")]
    folder = tmp_path_factory.mktemp("rebuilt") / "tasks"
    result = turnsmith("tasks", "rebuild", imported, "--out", folder, *named, *paths)
    assert result.exit_code == 0, result.output
    assert {task.instance_id for task in load_tasks(folder)} == {task.instance_id for task in here}
    return folder


def test_rebuilt_tasks_qualify(turnsmith, rebuilt):
    """The gold patch passes every time, the untouched tree never does, and nothing of either patch is in sight.

    Of pytest itself another version always is: that which runs the tests of all others.
    """
    result = turnsmith("tasks", "qualify", rebuilt, "--repeats", 2, "--json")
    verdicts = {record["instance_id"]: record["verdict"] for record in json.loads(result.stdout)}
    unfit = {name: verdict for name, verdict in verdicts.items() if verdict != "qualified"}
    assert unfit.items() <= {"pytest-dev__pytest-7571": "leaks"}.items(), result.stdout


@pytest.mark.parametrize(
    ("agent", "ending"), [("open_gold_engine", Outcome.RESOLVED), ("open_idle_engine", Outcome.EMPTY_PATCH)]
)
def test_rebuilt_tasks_are_played(turnsmith, rebuilt, model_directory, tmp_path, agent, ending):
    config = tmp_path / "played.toml"
    config.write_text(CONFIG.format(model=model_directory, tasks=rebuilt, agent=agent))
    result = turnsmith("eval", config, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    journal = RunFolder(tmp_path / "run").eval_trajectories("base", "rebuilt")
    endings = {each.instance_id: (each.outcome, each.detail) for each in read_trajectories(journal)}
    assert {outcome for outcome, _ in endings.values()} == {ending}, endings
