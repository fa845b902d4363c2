import asyncio
import shutil
import subprocess
import zlib

import pytest

from turnsmith.errors import UsageError
from turnsmith.grading.grading import Grader
from turnsmith.grading.testing import Suite
from turnsmith.runs.folder import read_json
from turnsmith.sandboxes.setup import has_one_commit
from turnsmith.synthesis.bugs import Bug
from turnsmith.synthesis.called_lines import find_called_lines
from turnsmith.synthesis.making import MakingSpec, make_bugs, open_folder
from turnsmith.synthesis.mutators import PROCEDURAL, find_mutations
from turnsmith.synthesis.packages import find_stable_suite
from turnsmith.synthesis.repositories import to_tree, write_candidate, write_repository
from turnsmith.synthesis.validation import run_in_order
from turnsmith.tasks.dataset import find_task_file, layer_paths, load_tasks
from turnsmith.types import PYTEST_COMMAND, Outcome, TaskTree

CORE = """
def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return high
    return value


def idle(value):
    return value + 1
"""
MORE = """
def total(values, start=0):
    for value in values:
        start += value
    return start
"""
FILES = {
    "pocket/__init__.py": "",
    "pocket/core.py": CORE,
    "pocket/more.py": MORE,
    "tests/test_core.py": (
        "from pocket.core import clamp\n\n\ndef test_low(): assert clamp(0, 1, 9) == 1\n\n\n"
        "def test_high(): assert clamp(99, 1, 9) == 9\n"
    ),
    "tests/test_more.py": (
        "from pocket.more import total\n\n\ndef test_total(): assert total([1, 2]) == 3\n\n\n"
        "def test_none(): assert total([]) == 0\n"
    ),
    "tests/test_child.py": (
        "import subprocess, sys\n\n\ndef test_child():\n"
        '    code = "from pocket.more import total; raise SystemExit(total([1]))"\n'
        "    assert subprocess.run([sys.executable, '-c', code]).returncode == 1\n"
    ),
}


@pytest.fixture
def checkout(tmp_path):
    for path, text in (
        FILES | {"tests/test_child.py": ""}
    ).items():  # a child takes long enough to be left out at times
        (tmp_path / "pocket" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pocket" / path).write_text(text)
    git = ["git", "-C", str(tmp_path / "pocket"), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True)
    return tmp_path / "pocket"


async def test_only_test_files_that_call_the_changed_function_run(provider, tmp_path):
    repository = write_repository("pocket", to_tree(FILES), tmp_path)
    suite = Suite(PYTEST_COMMAND, tuple(path for path in FILES if path.startswith("tests/")))
    called_lines = await find_called_lines(provider, (repository.layer,), suite)

    def files(path, function, name):
        mutations = find_mutations(FILES[path], PROCEDURAL)
        [found, *_] = [each for each in mutations if (each.function, each.name) == (function, name)]
        return set(called_lines.find_files(Bug(((path, found),))))

    assert files("pocket/core.py", "clamp", "change_operator") == {"tests/test_core.py", "tests/test_child.py"}
    assert files("pocket/core.py", "idle", "change_operator") == {"tests/test_child.py"}
    assert files("pocket/more.py", "total", "remove_loop") == {"tests/test_more.py", "tests/test_child.py"}
    assert files("pocket/more.py", "total", "change_constant") == {"tests/test_more.py", "tests/test_child.py"}


def test_bugs_of_one_file_share_git_objects_without_the_clean_file(tmp_path):
    repository = write_repository("pocket", to_tree(FILES), tmp_path)
    mutations = find_mutations(CORE, PROCEDURAL)
    one, two = (
        write_candidate(repository, Bug((("pocket/core.py", each),)), is_one_of_many=True) for each in mutations[:2]
    )
    whole = write_candidate(repository, Bug((("pocket/core.py", mutations[0]),)))
    assert whole.base_commit == one.base_commit != two.base_commit
    assert one.layers[:2] == two.layers[:2] and one.layers[2] == whole.layers[1]
    shared = [zlib.decompress(path.read_bytes()) for path in (one.layers[1] / ".git/objects").glob("??/*")]
    assert len(shared) > 3 and not any(b"def clamp" in content or b" core.py\0" in content for content in shared)
    for candidate in (one, two):
        assert has_one_commit(candidate.layers)
        tree = tmp_path / candidate.base_commit
        for layer in candidate.layers:
            shutil.copytree(layer, tree, dirs_exist_ok=True)
        subprocess.run(["git", "-C", tree, "fsck", "--strict", "--full"], check=True)
        status = subprocess.run(["git", "-C", tree, "status", "--porcelain"], check=True, capture_output=True)
        assert status.stdout == b""


@pytest.mark.slow
async def test_only_gold_patches_resolve_package_tasks_and_making_is_deterministic(provider, checkout, tmp_path):
    spec, first, second = MakingSpec((str(checkout),), 6), tmp_path / "first", tmp_path / "second"
    trials = []
    assert await make_bugs(spec, first, provider, num_workers=2, on_trial=trials.append) == {}
    tasks = load_tasks(first)
    assert len(tasks) == 6 == sum(trial.reason == "kept" for trial in trials)
    assert "combine" in {task.meta["family"] for task in tasks}
    made = read_json(first / "making.json")
    assert sum(each["kept"] for each in made["mutators"].values()) == 6
    assert sum(each["tried"] for each in made["mutators"].values()) == len(trials)
    grader = Grader(provider, tests_timeout_s=20, num_workers=2)
    for task in tasks:
        tree = TaskTree(task, layer_paths(task, find_task_file(first)))
        assert has_one_commit(tree.layers)
        assert (await grader.grade(tree, task.patch)).outcome is Outcome.RESOLVED
        assert (await grader.grade_unpatched(tree)).outcome is Outcome.UNRESOLVED
    kept = {layer for task in tasks for layer in task.layers}
    assert {f"layers/{path.name}" for path in (first / "layers").iterdir() if ".objects." not in path.name} <= kept

    class Killed(Exception):
        pass

    def kill(trial):
        raise Killed

    with pytest.raises(Killed):
        await make_bugs(spec, second, provider, num_workers=1, on_trial=kill)
    again = []
    await make_bugs(spec, second, provider, num_workers=1, on_trial=again.append)
    assert load_tasks(second) == tasks and again == trials
    lines = (second / "candidates.jsonl").read_text().splitlines()
    assert len(lines) == len(set(lines)) == len(trials)


async def test_a_folder_with_other_settings_is_refused(provider, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/making.json").write_text('{"num_tasks": 3, "seed": 1}')
    with pytest.raises(UsageError, match="num_tasks 3, seed 1"):
        await make_bugs(MakingSpec(("a==1",), 3), tmp_path / "out", provider, num_workers=1)
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match=str(tmp_path)):
        await make_bugs(MakingSpec(("a==1",), 3), tmp_path, provider, num_workers=1)


async def test_no_folder_remains_if_no_bug_is_tried(provider, tmp_path):
    nowhere, kept = str(tmp_path / "nowhere"), tmp_path / "kept"
    with pytest.raises(UsageError, match="name==version"):
        await make_bugs(MakingSpec((nowhere,), 3), tmp_path / "out", provider, num_workers=1)
    assert list(tmp_path.iterdir()) == []
    open_folder(kept, MakingSpec(("a==1",), 3))
    with pytest.raises(UsageError, match="name==version"):
        await make_bugs(MakingSpec((nowhere,), 3), kept, provider, num_workers=1)
    assert (kept / "making.json").exists()


async def test_missing_packages_of_a_suite_are_named(provider, tmp_path):
    tests = "import a_module_that_nobody_has\nfrom pocket.core import clamp\n\n\ndef test_it(): pass\n"
    repository = write_repository("pocket-1", to_tree(FILES | {"tests/test_core.py": tests}), tmp_path)
    with pytest.raises(UsageError, match=r"a_module_that_nobody_has.* --plugin"):
        await find_stable_suite(provider, repository, Suite(PYTEST_COMMAND, ("tests/test_core.py",)))


async def test_results_come_in_order_and_closing_cancels_the_rest():
    cancelled = []

    async def work(number):
        try:
            await asyncio.sleep(0.001 if number < 3 else 60)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number * 10

    results = run_in_order([1, 2, 3, 4, 5], work, 3)
    assert [await anext(results), await anext(results)] == [(1, 10), (2, 20)]
    await asyncio.sleep(0.01)
    await results.aclose()
    assert cancelled == [3, 4]
