import inspect
import io
import json
import random
import re
import shutil
import subprocess
import tarfile
import textwrap
import zlib

import pytest

from turnsmith.errors import UsageError
from turnsmith.git.one_commit import EXECUTABLE, TreeFile
from turnsmith.grading.grading import Grader
from turnsmith.grading.testing import Suite
from turnsmith.synthesis.bugs import spread
from turnsmith.synthesis.mutators import FAMILIES, find_mutations
from turnsmith.synthesis.packages import (
    find_modules,
    find_slow_tests,
    find_stable_suite,
    find_suite,
    make_package_tasks,
)
from turnsmith.synthesis.repositories import to_tree, write_repository
from turnsmith.synthesis.sources import PackageSource, fetch_source, read_archive
from turnsmith.tasks.dataset import find_task_file, layer_paths, load_tasks
from turnsmith.types import ExecResult, Outcome, TaskTree

CORE = '''"""Counting."""


def clamp(value: int, low: int, high: int) -> int:
    """Bring a value between two bounds."""
    if value < low:
        return low
    if value > high:
        return high
    return value


def total(values: list[int]) -> int:
    """Sum what is positive."""
    result = 0
    for value in values:
        if value <= 0:
            continue
        result += value
    return result
'''
TESTS = """import time

import pytest

from pocket.core import clamp, total


@pytest.mark.parametrize(("value", "expected"), [(0, 1), (5, 5), (99, 10)])
def test_clamp(value, expected):
    assert clamp(value, 1, 10) == expected


def test_total():
    assert total([1, -5, 2]) == 3


def test_nothing():
    assert total([]) == 0


def test_slow():
    time.sleep(0.6)
"""


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "pocket"
    files = {
        "src/pocket/__init__.py": "",
        "src/pocket/core.py": CORE,
        "tests/test_core.py": TESTS,
        "tests/test_offline.py": "import a_module_that_nobody_has\n\n\ndef test_it(): pass\n",
        "setup.py": "def setup(): return 1 + 1\n",
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--cov"\n',
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    (folder / "old.txt").write_text("a secret of the past")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "a future fix"], ["rm", "-q", "old.txt"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run([*git, "commit", "-qm", "second"], check=True)
    (folder / "uncommitted.txt").write_text("x")
    return folder


def read_objects(layer):
    return b"".join(zlib.decompress(path.read_bytes()) for path in (layer / ".git/objects").glob("??/*"))


@pytest.mark.slow
async def test_only_gold_patches_resolve_tasks_of_a_checkout(checkout, provider, tmp_path):
    verdicts = []
    out = tmp_path / "out"
    tasks = await make_package_tasks(str(checkout), out, provider, num_tasks=4, on_verdict=verdicts.append)
    assert load_tasks(out) == tasks
    assert len(tasks) == 4 == sum(verdict.is_kept for verdict in verdicts)
    assert (out / "making.json").exists()
    grader = Grader(provider, tests_timeout_s=20, num_workers=2)
    for task in tasks:
        tree = TaskTree(task, layer_paths(task, find_task_file(out)))
        assert (await grader.grade(tree, task.patch)).outcome is Outcome.RESOLVED
        assert (await grader.grade_unpatched(tree)).outcome is Outcome.UNRESOLVED
        past = read_objects(tree.layers[-1])
        assert b"secret of the past" not in past and b"future fix" not in past and b"test_clamp" in past
        assert not any("slow" in test for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS])
    kept = {task.layers[-1] for task in tasks} | {tasks[0].layers[0]}
    assert {f"layers/{path.name}" for path in (out / "layers").iterdir()} == kept


@pytest.mark.slow
async def test_making_twice_gives_the_same_tasks(checkout, provider, tmp_path):
    first = await make_package_tasks(str(checkout), tmp_path / "a", provider, num_tasks=2)
    second = await make_package_tasks(str(checkout), tmp_path / "b", provider, num_tasks=2)
    assert first == second


async def test_a_used_folder_is_refused(checkout, provider, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("x")
    with pytest.raises(UsageError, match=str(tmp_path)):
        await make_package_tasks(str(checkout), tmp_path / "out", provider, num_tasks=1)
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == ["out"]


async def test_a_suite_without_passing_tests_is_refused(checkout, provider, tmp_path):
    shutil.rmtree(checkout / ".git")
    for file in (checkout / "tests").glob("test_*.py"):
        file.write_text("def test_it(): assert 0\n")
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "only"]):
        subprocess.run([*git, *command], check=True)
    with pytest.raises(UsageError, match=r"no test of pocket-.* passes"):
        await make_package_tasks(str(checkout), tmp_path / "out", provider, num_tasks=1)
    assert [path for path in tmp_path.iterdir() if "out" in path.name] == []


def layout_of(name, *paths):
    source = PackageSource(name, "1", to_tree(dict.fromkeys(paths, "")))
    return source.import_root, find_modules(source), [*find_suite(source).files]


async def test_a_package_whose_tests_detect_no_bug_is_refused(checkout, provider, tmp_path):
    (checkout / "tests/test_core.py").write_text("def test_it(): pass\n")
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "-qam", "tests"], check=True)
    with pytest.raises(UsageError, match=r"pocket-.* take another package"):
        await make_package_tasks(str(checkout), tmp_path / "out", provider, num_tasks=1)
    assert [path.name for path in tmp_path.iterdir()] == ["pocket"]


def test_a_folder_with_the_import_root_as_prefix_is_not_inside_it():
    assert layout_of("a", "src/a.py", "src_docs/x.py", "test_a.py") == ("src", ["src/a.py"], ["test_a.py"])


def test_layouts():
    assert layout_of("a-b", "src/a_b/__init__.py", "src/a_b/x/y.py", "tests/test_x.py", "docs/conf.py") == (
        "src",
        ["src/a_b/__init__.py", "src/a_b/x/y.py"],
        ["tests/test_x.py"],
    )
    assert layout_of("one", "one.py", "setup.py", "bench.py", "test_one.py") == ("", ["one.py"], ["test_one.py"])
    assert layout_of("toolz", "toolz/__init__.py", "toolz/tests/test_a.py", "tlz/__init__.py", "examples/e.py") == (
        "",
        ["toolz/__init__.py"],
        ["toolz/tests/test_a.py"],
    )
    assert layout_of("fork", "tlz/__init__.py", "b.py", "tests/a_test.py")[1] == ["b.py", "tlz/__init__.py"]


@pytest.mark.parametrize(
    ("paths", "complaint"),
    [(["a.c", "tests/test_a.py"], "holds no Python package"), (["a.py", "tests/helper.py"], "no test files")],
)
def test_sources_without_code_or_tests_are_refused(paths, complaint):
    with pytest.raises(UsageError, match=f"a-1 .*{complaint}"):
        layout_of("a", *paths)


@pytest.mark.parametrize("package", ["nowhere", "toolz", "--index-url=x", "toolz>=1", "a==1 b"])
def test_an_invalid_package_name_is_refused(package):
    with pytest.raises(UsageError, match="give name==version, or the path of a git checkout"):
        fetch_source(package)


def test_a_folder_without_git_is_refused(tmp_path):
    with pytest.raises(UsageError, match="read the commit of"):
        fetch_source(str(tmp_path))


def make_archive(members):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content, kind in members:
            member = tarfile.TarInfo(name)
            member.size, member.type, member.mode = len(content), kind, 0o755
            member.linkname = "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def test_archives_yield_only_regular_files_inside_the_tree():
    regular = tarfile.REGTYPE
    archive = make_archive(
        [
            ("a-1/a.py", b"x = 1\n", regular),
            ("a-1/../../evil.py", b"", regular),
            ("/etc/evil", b"", regular),
            ("a-1/link", b"", tarfile.SYMTYPE),
            ("a-1/.git/config", b"", regular),
            ("a-1/sub/.git/hooks/x", b"", regular),
            ("a-1/a.egg-info/PKG-INFO", b"", regular),
            ("a-1/__pycache__/a.pyc", b"", regular),
            ("a-1/.gitignore", b"*.o\n", regular),
        ]
    )
    assert read_archive(archive, strip=1) == {
        "a.py": TreeFile(b"x = 1\n", EXECUTABLE),
        "etc/evil": TreeFile(b"", EXECUTABLE),
        ".gitignore": TreeFile(b"*.o\n", EXECUTABLE),
    }


def test_spread_alternates_families_and_files():
    source = inspect.getsource(textwrap)
    bugs = {"a.py": find_mutations(source), "b.py": find_mutations(source), "empty.py": []}
    drawn = list(spread(bugs, random.Random(0), FAMILIES))
    assert len(drawn) == 2 * len(find_mutations(source))
    assert {bug.family for bug in drawn[: len(FAMILIES)]} == set(FAMILIES)
    operators = [bug.mutations[0][0] for bug in drawn if bug.family == "operator"]
    assert {operators[0], operators[1]} == {"a.py", "b.py"}
    assert drawn == list(spread(bugs, random.Random(0), FAMILIES))


def test_slow_tests_are_found_in_the_log():
    log = "0.70s call     a.py::test_x[a b]\n0.90s setup    a.py::test_y\n0.04s call     a.py::test_z\n"
    assert find_slow_tests(log) == ["a.py::test_x[a b]"]


class ScriptedProvider:
    """Provider of sandboxes whose test runs print prepared logs."""

    isolation = "none"

    def __init__(self, *summaries):
        self.summaries = iter(summaries)

    async def start(self, spec):
        return ScriptedSandbox(next(self.summaries))


class ScriptedSandbox:
    isolation = "none"

    def __init__(self, summary):
        self.summary = summary

    async def run_pytest(self, command, *, stdin, **limits):
        return self.show(self.seal(stdin))

    async def exec(self, script, *, stdin, **limits):
        begin, end = re.findall(r"echo (\S+-\w+)", script)
        return self.show(f"{begin}\n{self.seal(stdin)}\n{end}\n")

    def seal(self, stdin):
        mark = json.loads(stdin)["mark"]
        lines = ["= short test summary info =", *self.summary.split("\n")]
        return "".join(f"{mark} {line}\n" for line in lines) + f"{mark}\n"

    def show(self, log):
        return ExecResult(int("FAILED" in self.summary), log.encode(), 0.5)

    async def stop(self):
        pass


async def test_unstable_tests_are_dropped(tmp_path):
    provider = ScriptedProvider(
        "PASSED a.py::t\nPASSED a.py::u\nPASSED b.py::v\nXFAIL b.py::y\nFAILED c.py::w",
        "PASSED a.py::t\nPASSED a.py::u\nPASSED b.py::v\nXFAIL b.py::y\nFAILED b.py::x - always",
        "PASSED a.py::t\nFAILED a.py::u\nPASSED b.py::v\nXPASS b.py::y",
    )
    repository = write_repository("r", {}, tmp_path)
    suite, before = await find_stable_suite(provider, repository, Suite("pytest", ("a.py", "b.py", "c.py")))
    assert suite.files == ("a.py", "b.py")
    assert before.passing == ["a.py::t", "b.py::v"]
    assert before.status("b.py::x") == "failed"
