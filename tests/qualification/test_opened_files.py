"""Test data in any place: found by a run with the gold patch, and protected from every other patch."""

from dataclasses import replace

import pytest

from support.repositories.shop_texts import BASE, FIXED, VISIBLE
from turnsmith.errors import SandboxError
from turnsmith.grading.cases import Case
from turnsmith.grading.grading import Grader
from turnsmith.grading.opened_files import OpenedFiles, find_test_data, select_test_data
from turnsmith.grading.patch_selection import Project
from turnsmith.qualification.copies import SystemFiles
from turnsmith.qualification.examination import Criteria, examine
from turnsmith.qualification.record import Qualification, Verdict, qualified
from turnsmith.synthesis.repositories import make_patch
from turnsmith.types import Outcome, TaskTree

READER = """

import json
from pathlib import Path


def test_examples():
    prices, bound, expected = json.loads(Path("examples/total.json").read_text())
    assert total(prices, bound) == expected


def test_rates():
    from shop import read_rates

    assert read_rates("rates.txt") == open("rates.txt").read() == "7"
"""
RATES = "\n\ndef read_rates(path):\n    with open(path) as file:\n        return file.read()\n"
TEST, DATA, OTHER = "test_shop.py::test_examples", "[[10, 20, 30], 45, 45]\n", "[[10, 20, 30], 45, 60]\n"


@pytest.fixture
def case(origin, provider):
    folder = origin.folder
    (folder / "examples").mkdir()
    for path, text in {"examples/total.json": DATA, "rates.txt": "7", "shop.py": BASE + RATES}.items():
        (folder / path).write_text(text)
    changes = {
        "patch": make_patch("shop.py", BASE + RATES, FIXED + RATES),
        "test_patch": make_patch("test_shop.py", VISIBLE, VISIBLE + READER),
        "FAIL_TO_PASS": [TEST],
        "PASS_TO_PASS": ["test_shop.py::test_small", "test_shop.py::test_rates"],
    }
    return Case(TaskTree(origin.task.model_copy(update=changes), (folder,)), provider, 60.0)


async def test_files_that_only_tests_open_are_found(case):
    assert await find_test_data(case) == ["examples/total.json"]


class Dead:
    """Provider that starts nothing."""

    async def start(self, spec):
        raise SandboxError("no room")


async def test_other_runners_are_not_run_for_test_data(case):
    task = case.task.model_copy(update={"log_parser": "unittest"})
    assert await find_test_data(replace(case.with_task(task), provider=Dead())) == []
    with pytest.raises(SandboxError):
        await find_test_data(replace(case, provider=Dead()))


async def test_file_of_the_fix_is_not_test_data(case):
    fix = case.task.patch + make_patch("examples/total.json", DATA, DATA + "\n")
    assert await find_test_data(case.with_task(case.task.model_copy(update={"patch": fix}))) == []


async def test_patch_of_test_data_is_not_rewarded_on_a_qualified_task(case, provider):
    """Without a record the same patch is resolved, since the file is not known as test data."""
    edited = make_patch("examples/total.json", DATA, OTHER)
    grader = Grader(provider, tests_timeout_s=60.0, num_workers=1)
    record = Qualification(instance_id="shop-1", key="", verdict=Verdict.QUALIFIED, test_data=["examples/total.json"])
    for task, expected in ((case.task, Outcome.RESOLVED), (qualified(case.task, record), Outcome.EMPTY_PATCH)):
        assert (await grader.grade(replace(case.tree, task=task), edited)).outcome is expected
        assert (await grader.grade(replace(case.tree, task=task), task.patch + edited)).outcome is not expected
        grader.forget()


@pytest.mark.slow
async def test_record_names_test_data(case):
    record = await examine(case, SystemFiles(), Criteria(repeats=2, tests_timeout_s=60.0))
    assert (record.verdict, record.test_data) == (Verdict.QUALIFIED, ["examples/total.json"])


def test_test_surface_by_name_is_not_recorded(tmp_path):
    opened = (("tests/a.json", "tests/test_a.py"), ("b.json", "conftest.py"), ("c.json", "pkg/core.py"))
    found = OpenedFiles((*opened, ("c.json", "tests/test_a.py")))
    assert select_test_data(found, Project((tmp_path,), frozenset())) == ["b.json"]


@pytest.fixture
def linked(case):
    """Make the same task with a linked data folder and linked data in it."""
    [folder] = case.tree.layers
    (folder / "real").mkdir()
    (folder / "examples/total.json").rename(folder / "real/sums.json")
    (folder / "examples").rmdir()
    (folder / "examples").symlink_to("real")
    (folder / "real/total.json").symlink_to("sums.json")
    return case


async def test_linked_data_is_protected_with_its_links(linked):
    places = ["examples", "examples/total.json", "real", "real/sums.json", "real/total.json"]
    assert await find_test_data(linked) == places


HELPER = """import pytest

from shop import total


def check(prices, bound, expected):
    assert total(prices, bound) == expected
    with open("sums.txt") as file:
        assert file.read() == "1"
"""
USER = "\n\ndef test_examples():\n    from checks import check\n\n    check([10, 20, 30], 45, 45)\n"


def use_helper(case, source="", name="checks.py"):
    """Make the same task with tests that use a helper."""
    [folder] = case.tree.layers
    for path, text in {name: HELPER, "sums.txt": "1", "other.py": source}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    hidden = make_patch("test_shop.py", VISIBLE, VISIBLE + USER)
    task = case.task.model_copy(update={"test_patch": hidden, "PASS_TO_PASS": ["test_shop.py::test_small"]})
    return case.with_task(task)


@pytest.mark.parametrize("name", ["checks.py", "checks/__init__.py"])
async def test_unmentioned_helper_is_protected_with_its_data(case, name):
    assert await find_test_data(use_helper(case, name=name)) == [name, "sums.txt"]


async def test_module_that_source_mentions_is_no_helper(case):
    assert await find_test_data(use_helper(case, "import checks\n")) == []


async def test_patch_of_a_helper_is_not_rewarded_on_a_qualified_task(case, provider):
    case = use_helper(case)
    record = Qualification(
        instance_id="shop-1", key="", verdict=Verdict.QUALIFIED, test_data=await find_test_data(case)
    )
    weak = make_patch("checks.py", HELPER, HELPER.replace("== expected", "or True"))
    package = "diff --git a/checks/__init__.py b/checks/__init__.py\nnew file mode 100644\n--- /dev/null\n"
    package += "+++ b/checks/__init__.py\n@@ -0,0 +1 @@\n+def check(*_): pass\n"
    grader = Grader(provider, tests_timeout_s=60.0, num_workers=1)
    for patch in (weak, package):
        for task, expected in ((case.task, Outcome.RESOLVED), (qualified(case.task, record), Outcome.EMPTY_PATCH)):
            assert (await grader.grade(replace(case.tree, task=task), patch)).outcome is expected
            grader.forget()


MODULES = {
    "import pytest": True,
    "import os, pytest": True,
    "    from unittest import mock": True,
    "from _pytest.pytester import x": True,
    "from . import core": False,
    "from .mock import x": False,
    "# import of pytest": False,
    "import unittests": False,
}


@pytest.mark.parametrize("line", MODULES)
def test_helper_imports_a_test_framework(line, tmp_path):
    """Many modules under test are imported only by tests, and an honest patch may change these."""
    tmp_path.joinpath("pkg").mkdir()
    tmp_path.joinpath("pkg/api.py").write_text(f"x = 1\n{line}\n")
    found = select_test_data(OpenedFiles(modules=("pkg/api.py",)), Project((tmp_path,), frozenset()))
    assert found == (["pkg/api.py"] if MODULES[line] else [])
