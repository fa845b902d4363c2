"""`tasks images` with podman and a registry on this machine."""

import json
import random
import subprocess

import pytest

from support.machine.image_registry import LocalRegistry, add_image, serving
from support.machine.podman_engine import find_podman
from turnsmith.io import http
from turnsmith.sandboxes.images import pulling
from turnsmith.sandboxes.images.preflight import list_names
from turnsmith.tasks.dataset import save_tasks
from turnsmith.types import Task

pytestmark = pytest.mark.slow
SIZE = 200_000


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(http, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(pulling, "FIRST_WAIT_S", 0.01)


@pytest.fixture
def engine():
    return find_podman()


@pytest.fixture
def registry(engine):
    """Run a registry of three images over one base; remove the pulled images afterwards."""
    with serving(LocalRegistry()) as registry:
        base = make_text()
        for repository in ("set/one", "set/two", "set/three"):
            add_image(registry, repository, "latest", base, make_text())
        yield registry
        pulled = [name for name in list_names(engine) if name.startswith(registry.host) and "@" not in name]
        if pulled:
            subprocess.run([engine, "rmi", "--force", *pulled], check=True, capture_output=True)


def make_text():
    """Return random text that hardly compresses."""
    return random.SystemRandom().randbytes(SIZE).hex()


@pytest.fixture
def write_tasks(tmp_path):
    """Return a function that writes a task for each image, in this order."""

    def write(*images):
        tasks = [
            Task(
                instance_id=f"task-{number}", repo="r", base_commit="0", problem_statement="p", FAIL_TO_PASS=["t"],
                PASS_TO_PASS=[], patch="", image=image,
            )
            for number, image in enumerate(images)
        ]  # fmt: skip
        return save_tasks(tmp_path / "tasks", tasks)

    return write


@pytest.fixture
def look(turnsmith, engine):
    """Run the command. Return its exit code and its JSON output."""

    def look(path, *options):
        result = turnsmith("tasks", "images", path, "--json", "--sandbox.container_engine", engine, *options)
        assert result.stdout, result.stderr
        return result.exit_code, json.loads(result.stdout), result.stderr

    return look


def states(report):
    return [image["state"] for image in report["images"]]


def test_images_are_found_and_pulled(turnsmith, engine, registry, write_tasks, look):
    registry.needs_token = True
    one, two = f"{registry.host}/set/one", f"{registry.host}/set/two:latest"
    path = write_tasks(one, two, one)
    code, report, _ = look(path, "--bandwidth", "8")
    assert code == 0 and states(report) == ["there", "there"]
    assert [image["tasks"] for image in report["images"]] == [2, 1]
    alone = report["images"][0]["download_bytes"]
    assert SIZE < report["download_bytes"] < 2 * alone, "the layer that both share counts once"
    assert report["seconds"] == pytest.approx(report["download_bytes"] / 1e6)
    assert find_here(engine, registry) == set()

    result = turnsmith("tasks", "images", path, "--pull", "--sandbox.container_engine", engine)
    assert result.exit_code == 0 and "2 of 2 images pulled" in result.stdout, result.output
    assert "2 images, named by 3 tasks" in result.stdout and "2 to be pulled" in result.stdout
    assert states(look(path)[1]) == ["here", "here"]
    num_asked = registry.asked.total()
    code, report, _ = look(path, "--pull")
    assert (code, report["pulled"]) == (0, 0) and registry.asked.total() == num_asked


def find_here(engine, registry):
    """Return the registry's repositories that the engine has pulled."""
    names = (name for name in list_names(engine) if name.startswith(registry.host))
    return {name.removeprefix(f"{registry.host}/").partition(":")[0].partition("@")[0] for name in names}


def test_missing_images_are_named_and_the_others_pulled(engine, registry, write_tasks, turnsmith):
    gone = f"{registry.host}/set/gone"
    path = write_tasks(gone, "localhost/turnsmith-nobody-built-this", f"{registry.host}/set/one")
    result = turnsmith("tasks", "images", path, "--pull", "--sandbox.container_engine", engine)
    assert result.exit_code == 1
    assert registry.host in " ".join(result.stdout.split())
    assert "1 to be pulled, 2 missing" in result.stdout and "1 of 1 images pulled" in result.stdout
    assert find_here(engine, registry) == {"set/one"}


def test_limit_and_task_select_images(registry, write_tasks, look, turnsmith):
    path = write_tasks(*(f"{registry.host}/set/{name}" for name in ("one", "two", "three")))
    assert len(look(path, "--limit", "2")[1]["images"]) == 2
    assert [image["name"] for image in look(path, "--task", "task-2")[1]["images"]] == [f"{registry.host}/set/three"]
    result = turnsmith("tasks", "images", path, "--task", "nobody")
    assert result.exit_code == 2 and "'nobody'" in result.stderr


def test_a_pull_survives_a_busy_registry_and_a_broken_connection(engine, registry, write_tasks, look):
    path = write_tasks(f"{registry.host}/set/one")
    assert states(look(path)[1]) == ["there"]
    registry.refusals = [(503, {}), (429, {"Retry-After": "1"})]
    registry.num_cuts = 2
    code, report, _ = look(path, "--pull")
    assert (code, report["pulled"], report["not_pulled"]) == (0, 1, {})
    assert registry.num_cuts == 0 and find_here(engine, registry) == {"set/one"}


def test_an_image_that_fails_to_pull_is_named_and_the_others_stay(engine, registry, write_tasks, look):
    broken = json.loads(registry.manifests["set/two", "latest"][1])["layers"][1]["digest"]
    del registry.blobs[broken]
    path = write_tasks(*(f"{registry.host}/set/{name}" for name in ("one", "two", "three")))
    code, report, _ = look(path, "--pull")
    [(name, fault)] = report["not_pulled"].items()
    assert code == 1 and name == f"{registry.host}/set/two" and name in fault and "\n" not in fault
    assert find_here(engine, registry) == {"set/one", "set/three"}


def test_a_pull_ends_if_the_disk_is_full(registry, write_tasks, look, monkeypatch):
    monkeypatch.setattr(pulling, "find_free_bytes", lambda program: pulling.SPARE_BYTES)
    code, report, errors = look(write_tasks(f"{registry.host}/set/one"), "--pull")
    assert code == 2 and "image prune" in errors and "0 of 1 images" in errors
    assert report["stopped"] and report["pulled"] == 0


def test_a_file_without_images_and_a_removed_option_are_refused(turnsmith, task_folder, write_tasks):
    result = turnsmith("tasks", "images", task_folder)
    assert result.exit_code == 2 and str(task_folder) in result.stderr
    result = turnsmith("tasks", "images", write_tasks("a/b"), "--max-gb", "3")
    assert result.exit_code == 2 and "--max-gb" in result.stderr and "podman image prune" in result.stderr
