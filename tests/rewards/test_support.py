"""Helpers and data outside of the folders of tests: no patch may change them, unless the fix does or source uses them."""

import pytest

from turnsmith.rewards.hunks import HunkClass, Project
from turnsmith.rewards.support import SUPPORT

SUPPORTING = ["pkg/testing.py", "pkg/testutils.py", "pkg/_testing.py", "testing_utils.py", "fixtures/a.json", 
              "pkg/testdata/a.txt", "src/__snapshots__/a.ambr", "a.snap", "test_data/deep/a", "cassettes/a.yaml"]  # fmt: skip
OTHERS = ["pkg/core.py", "pkg/data/a.json", "testing/core.py", "contesting.py", "fixtures.py", "docs/testing.md"]


def write(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return Project((folder,), frozenset())


@pytest.mark.parametrize("path", SUPPORTING + OTHERS)
def test_a_name_of_a_helper_or_of_data_of_tests_makes_a_file_of_the_tree_test_surface(path, tmp_path):
    is_support = path in SUPPORTING
    assert bool(SUPPORT.fullmatch(path)) is is_support
    project = write(
        tmp_path, {path: "x", "pkg/used.py": "import json\n", "tests/test_a.py": "from pkg import testing\n"}
    )
    assert project.classify(path) is (HunkClass.TEST_SURFACE if is_support else HunkClass.SOURCE)


@pytest.mark.parametrize("path", SUPPORTING)
def test_what_the_fix_changes_or_the_patch_adds_is_source(path, tmp_path):
    assert write(tmp_path, {"a.py": ""}).classify(path) is HunkClass.SOURCE
    tmp_path.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
    tmp_path.joinpath(path).write_text("x")
    assert Project((tmp_path,), frozenset(), frozenset({path})).classify(path) is HunkClass.SOURCE


USERS = {
    "import pkg.testing": "pkg/testing.py",
    "from pkg import testing as t": "pkg/testing.py",
    "from pkg.testing import check": "pkg/testing.py",
    "from .testing import check": "pkg/testing.py",
    "def f():\n    from . import (a,\n        testing)": "pkg/testing.py",
    "from ..testing import x": "testing.py",
    "LAZY = {'testing': 'pkg.testing'}": "pkg/testing.py",
    "load(HERE / 'fixtures' / name)": "pkg/fixtures/a.json",
    "load('pkg/fixtures/a.json')": "pkg/fixtures/a.json",
    "load(folder / 'a.snap')": "pkg/a.snap",
}


@pytest.mark.parametrize("code", USERS)
def test_what_source_imports_or_names_stays_source(code, tmp_path):
    path = USERS[code]
    project = write(tmp_path, {path: "x", "pkg/used.py": f"{code}\n"})
    assert project.classify(path) is HunkClass.SOURCE


@pytest.mark.parametrize(
    ("user", "code"),
    [("pkg/used.py", "import numpy.testing"), ("pkg/used.py", "from other.testing import x"), ("pkg/used.py", "x = ("),
     ("tests/test_a.py", "from pkg.testing import check"), ("conftest.py", "from pkg.testing import check"),
     ("pkg/testutils.py", "from .testing import check"), ("pkg/used.py", "# testing")],
)  # fmt: skip
def test_other_modules_of_the_name_tests_and_other_helpers_make_no_source_of_it(user, code, tmp_path):
    project = write(tmp_path, {"pkg/testing.py": "x", user: f"{code}\n"})
    assert project.classify("pkg/testing.py") is HunkClass.TEST_SURFACE


def test_what_only_tests_read_with_the_gold_patch_is_test_surface_whatever_its_name(tmp_path):
    project = Project((tmp_path,), frozenset(), test_data=frozenset({"examples/a.json"}))
    assert project.classify("examples/a.json") is HunkClass.TEST_SURFACE
    assert project.classify("examples/b.json") is HunkClass.SOURCE
