"""Image tasks from the row of a data set to results: import, pre-flight, qualification, evaluation."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.machine.image_tasks import RELEASES, SUITES_IMAGE, write_rows
from support.machine.ordinary_user import NOBODY, become_user
from support.machine.podman_engine import find_podman

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
TESTS = Path(__file__).parents[1]
CONFIG = """
model.path = "{model}"
model.threads = 1
eval_tasks.images.path = "{tasks}"
agent = {{ prompts = "brief", max_context = 8192, max_new_tokens = 4096, max_turns = 3 }}
engine.kind = "support.engines.scripted_agents:{agent}"
rollouts.concurrency = 2
eval = {{ num_runs = 1, k = 1 }}
sandbox = {{ kind = "podman", container_engine = "{engine}" }}
"""


@pytest.fixture(scope="module")
def engine():
    return find_podman()


@pytest.fixture(scope="module")
def rows(engine, tmp_path_factory):
    """Write a file of rows and make their images; remove the images afterwards."""
    if subprocess.run([engine, "image", "exists", SUITES_IMAGE]).returncode:
        pytest.skip(f"there is no image {SUITES_IMAGE}: .ci/containers makes it")
    folder = tmp_path_factory.mktemp("rows")
    folder.chmod(0o755)
    try:
        yield write_rows(folder, lambda *arguments: run([engine, *arguments]))
    finally:
        for release in RELEASES:
            subprocess.run([engine, "rmi", "--force", release.image], capture_output=True)


@pytest.fixture(params=["root", "rootless"])
def user(request, engine, rows, tmp_path):
    """Return the command prefix of an ordinary user, and an engine with the images of the rows."""
    if request.param == "root":
        yield [], engine
        return
    if os.geteuid() != 0:
        pytest.skip("we are an ordinary user already: the other test has shown it")
    places = [Path(sys.base_prefix).resolve(), Path(sys.prefix), TESTS.parent, tmp_path, rows.parent]
    prefix = become_user(tmp_path / "user", places)
    os.chown(tmp_path, NOBODY, NOBODY)
    packed = rows.with_name("images.tar")
    if not packed.exists():
        images = [release.image for release in RELEASES]
        run([engine, "save", "--quiet", "--multi-image-archive", "--output", packed, *images])
        packed.chmod(0o644)
    loaded = subprocess.run([*prefix, "podman", "load", "--quiet", "--input", packed], capture_output=True, text=True)
    if loaded.returncode:
        pytest.skip(f"this machine has no rootless podman: {loaded.stderr.strip()[-200:]}")
    yield prefix, "podman"
    # Ends the process that holds the user's namespace.
    subprocess.run([*prefix, "podman", "system", "migrate"], capture_output=True)


def run(command, **options):
    """Run a command that must succeed. Return its output."""
    finished = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert finished.returncode == 0, f"{command}: {finished.stdout[-3000:]}{finished.stderr[-3000:]}"
    return finished.stdout.strip()


@pytest.fixture
def model(model_directory, tmp_path):
    """Return the random model in a place that the user can read."""
    copy = shutil.copytree(model_directory, tmp_path / "model")
    # transformers writes weights for their owner only.
    (copy / "model.safetensors").chmod(0o644)
    copy.chmod(0o755)
    return copy


@pytest.fixture
def turnsmith(user, tmp_path):
    """Return a function that runs a command as the user, with the scripted agents importable, and returns its output."""
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent / "scripts")])
    program = [*user[0], "env", f"PYTHONPATH={paths}", "OMP_NUM_THREADS=1", sys.executable, "-m", "turnsmith"]
    return lambda *arguments: run([*program, *arguments], cwd=tmp_path)


def test_image_tasks_from_a_row_to_a_figure(user, turnsmith, rows, tmp_path, model):
    _, engine = user
    tasks = tmp_path / "tasks"
    assert "imported 2" in turnsmith("tasks", "import", "swe-rebench", "--from", rows, "--out", tasks)
    found = json.loads(turnsmith("tasks", "images", tasks, "--json", "--sandbox.container_engine", engine))
    assert found["counts"] == {"here": 2, "there": 0, "missing": 0, "unknown": 0}
    podman = ("--sandbox", "podman", "--sandbox.container_engine", engine)
    records = json.loads(turnsmith("tasks", "qualify", tasks, "--repeats", "2", "--json", *podman))
    assert [record["verdict"] for record in records] == ["qualified", "qualified"], records
    for agent, rate in (("open_gold_engine", 1.0), ("open_idle_engine", 0.0)):
        config = CONFIG.format(model=model, tasks=tasks, agent=agent, engine=engine)
        (tmp_path / f"{agent}.toml").write_text(config)
        turnsmith("eval", tmp_path / f"{agent}.toml", "--out", tmp_path / agent)
        result = json.loads((tmp_path / agent / "evals/base/images/result.json").read_text())
        assert (result["pass_at_1"], result["num_attempts"], result["num_lost"]) == (rate, 2, 0), result
