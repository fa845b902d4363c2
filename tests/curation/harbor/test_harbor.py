"""Harbor directory of a practice task: its scripts in a sandbox give reward 1 with the solution and 0 without."""

import shutil
import tomllib

import pytest

from turnsmith.config import SandboxConfig
from turnsmith.curation.harbor.directory import write_directory
from turnsmith.errors import UsageError
from turnsmith.qualification.record import Qualification, Verdict
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxSpec, started
from turnsmith.synthesis.practice.making import PracticeSpec, make_practice_tasks
from turnsmith.tasks.dataset import layer_paths, load_tasks
from turnsmith.tasks.sets.base import to_record
from turnsmith.tasks.sets.harbor import HARBOR, read_folder
from turnsmith.types import Ability, Edit, Mutant, TaskTree

RECORD = Qualification(instance_id="practice", key="0" * 64, verdict=Verdict.QUALIFIED, repeats=5)


@pytest.fixture
async def provider():
    provider = make_provider(SandboxConfig())
    yield provider
    await provider.close()


@pytest.fixture
async def directory(provider, tmp_path):
    """Return a practice task and its exported directory."""
    await make_practice_tasks(PracticeSpec("train", 1, 0.0, seed=3), tmp_path / "tasks", provider)
    [task] = load_tasks(tmp_path / "tasks")
    layers = layer_paths(task, tmp_path / "tasks" / "tasks.jsonl")
    return task, write_directory(TaskTree(task, layers), RECORD, tmp_path / "harbor")


async def run_scripts(provider, directory, *scripts):
    """Run scripts of a directory on its tree. Return the reward."""
    tree = directory / "environment" / "tree"
    async with started(provider, SandboxSpec((tree,))) as sandbox:
        for file in sorted(path for path in directory.rglob("*") if path.is_file() and tree not in path.parents):
            await sandbox.write(f"/tmp/harbor/{file.relative_to(directory)}", file.read_bytes())
        for script in scripts:
            run = f"bash /tmp/harbor/{script}"
            result = await sandbox.exec(run, timeout_s=60, env={"VERIFIER_LOGS": "/tmp/logs"})
        return (await sandbox.read("/tmp/logs/reward.txt")).decode().strip(), result.output.decode()


async def test_the_solution_pays_1_and_nothing_pays_0(provider, directory):
    task, folder = directory
    solved, output = await run_scripts(provider, folder, "solution/solve.sh", "tests/test.sh")
    assert (solved, output) == ("1", "")
    untouched, output = await run_scripts(provider, folder, "tests/test.sh")
    assert untouched == "0" and task.FAIL_TO_PASS[0] in output


async def test_a_directory_that_we_wrote_comes_back_as_the_task_that_it_was(directory):
    task, folder = directory
    back = to_record(HARBOR, read_folder(folder))
    assert back == task.model_copy(update={"layers": [str(folder / "environment" / "tree")]})


async def test_what_was_found_out_stands_in_its_metadata(directory):
    _, folder = directory
    settings = tomllib.loads((folder / "task.toml").read_text())
    assert settings["metadata"]["qualification"]["verdict"] == "qualified"
    assert (folder / "tests" / "test.sh").stat().st_mode & 0o111
    assert (folder / "instruction.md").read_text() and "COPY tree /testbed" in (
        folder / "environment/Dockerfile"
    ).read_text()


async def test_mutants_on_record_are_in_no_file(directory, tmp_path):
    """Exported files contain no mutant, because it would reveal an expectation of the audit."""
    task, folder = directory
    mutant = Mutant(
        "tests/test_a.py::test_a", (Edit(0, 1, "a-secret-edit"),), ("tests/test_a.py::test_a[a-secret-case]",)
    )
    record = RECORD.model_copy(update={"audit": Ability(mutants=(mutant,))})
    written = write_directory(TaskTree(task, (folder / "environment" / "tree",)), record, tmp_path / "other")
    files = [path for path in written.rglob("*") if path.is_file()]
    assert files and not any(b"a-secret" in path.read_bytes() for path in files)
    settings = tomllib.loads((written / "task.toml").read_text())
    assert settings["metadata"]["qualification"]["audit"] == {"reason": ""}


async def test_hidden_tests_are_applied_first(provider, directory, tmp_path):
    task, folder = directory
    other = tmp_path / "other"
    patch = "diff --git a/tests/test_no.py b/tests/test_no.py\nnew file mode 100644\n--- /dev/null\n+++ b/tests/test_no.py\n"
    hidden = task.model_copy(
        update={
            "test_patch": f"{patch}@@ -0,0 +1 @@\n+def test_no(): assert 0\n",
            "FAIL_TO_PASS": ["tests/test_no.py::test_no"],
        }
    )
    written = write_directory(TaskTree(hidden, (folder / "environment" / "tree",)), None, other)
    reward, output = await run_scripts(provider, written, "solution/solve.sh", "tests/test.sh")
    assert reward == "0" and "tests/test_no.py::test_no" in output


async def test_existing_folders_and_tasks_that_harbor_cannot_grade_are_refused(directory, tmp_path):
    task, folder = directory
    with pytest.raises(UsageError, match="nothing is overwritten"):
        write_directory(TaskTree(task, ()), None, folder.parent)
    shutil.rmtree(folder)
    with pytest.raises(UsageError, match=r"environments/x.*leave this task out"):
        write_directory(TaskTree(task.model_copy(update={"environment": "environments/x"}), ()), None, folder.parent)
    with pytest.raises(UsageError, match=r"django.*only pytest"):
        write_directory(TaskTree(task.model_copy(update={"log_parser": "django"}), ()), None, folder.parent)
    with pytest.raises(UsageError, match=r"r2e-gym.*leave this task out"):
        write_directory(TaskTree(task.model_copy(update={"status_rules": "r2e-gym"}), ()), None, folder.parent)
    assert not folder.exists()
