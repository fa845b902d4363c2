"""Qualification records in exported Harbor directories are the current ones."""

import tomllib

import pytest

from support.episodes.silence import Silence
from turnsmith.config import SandboxConfig
from turnsmith.curation.export import export_task_file
from turnsmith.qualification.record import FILE_NAME, VERSION, Qualification, Verdict, make_key
from turnsmith.runs.folder import append_record
from turnsmith.sandboxes.names import SANDBOXES
from turnsmith.tasks.dataset import layer_paths, save_tasks
from turnsmith.tasks.sets.harbor import HARBOR
from turnsmith.types import Task, TaskTree

TASK = Task(
    instance_id="t", repo="r", base_commit="c", problem_statement="p", FAIL_TO_PASS=["test_a.py::t"], PASS_TO_PASS=[],
    patch="", test_patch="", layers=["layer"],
)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Return a folder with one qualified task."""
    (tmp_path / "in/layer").mkdir(parents=True)
    (tmp_path / "in/layer/a.py").write_text("")
    save_tasks(tmp_path / "in", [TASK])
    return tmp_path / "in"


def qualify(folder, kind):
    """Write a qualification record of the task."""
    key = make_key(TaskTree(TASK, layer_paths(TASK, folder / "tasks.jsonl")), SandboxConfig(kind=kind))
    record = Qualification(instance_id="t", key=key, verdict=Verdict.QUALIFIED, sandbox=kind)
    append_record(folder / FILE_NAME, record)


def export(folder, task, out):
    """Return the qualification in the exported directory."""
    export_task_file(folder, [task], HARBOR, out, Silence())
    return tomllib.loads((out / "t/task.toml").read_text())["metadata"].get("qualification")


@pytest.mark.parametrize("kind", [*SANDBOXES.paths, "my_sandbox:Provider"])
def test_a_record_leaves_with_its_task_unless_the_row_has_changed(folder, tmp_path, kind):
    qualify(folder, kind)
    assert export(folder, TASK, tmp_path / "same")["verdict"] == "qualified"
    changed = TASK.model_copy(update={"problem_statement": "another"})
    assert export(folder, changed, tmp_path / "changed") is None


def test_a_record_without_a_sandbox_kind_is_read(folder, tmp_path):
    qualify(folder, "podman")
    file = folder / FILE_NAME
    file.write_text(file.read_text().replace('"sandbox":"podman",', ""))
    assert export(folder, TASK, tmp_path / "out")["verdict"] == "qualified"


def test_a_record_of_an_old_layout_is_passed_over(folder, tmp_path):
    qualify(folder, "local")
    file = folder / FILE_NAME
    old = file.read_text().replace(f'"version":{VERSION},', '"version":6,').replace('"leaks":[]', '"leaks":"none"')
    file.write_text(old)
    assert export(folder, TASK, tmp_path / "out") is None
