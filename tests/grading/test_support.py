"""Test helpers and test data outside of test folders: no patch may change them, unless the fix does or source uses them."""

import pytest

from turnsmith.grading.file_classes import SUPPORT
from turnsmith.grading.patch_selection import FileClass, Project

SUPPORTING = ["pkg/testing.py", "pkg/testutils.py", "pkg/_testing.py", "testing_utils.py", "fixtures/a.json", 
              "pkg/testdata/a.txt", "src/__snapshots__/a.ambr", "a.snap", "test_data/deep/a", "cassettes/a.yaml"]  # fmt: skip
OTHERS = ["pkg/core.py", "pkg/data/a.json", "testing/core.py", "contesting.py", "fixtures.py", "docs/testing.md"]


def write(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return Project((folder,), frozenset())


@pytest.mark.parametrize("path", SUPPORTING + OTHERS)
def test_test_helper_or_data_by_name_is_test_surface(path, tmp_path):
    is_support = path in SUPPORTING
    assert bool(SUPPORT.fullmatch(path)) is is_support
    project = write(
        tmp_path, {path: "x", "pkg/used.py": "import json\n", "tests/test_a.py": "from pkg import testing\n"}
    )
    assert project.classify(path) is (FileClass.TEST_SURFACE if is_support else FileClass.SOURCE)


@pytest.mark.parametrize("path", SUPPORTING)
def test_file_of_the_fix_or_new_file_is_source(path, tmp_path):
    assert write(tmp_path, {"a.py": ""}).classify(path) is FileClass.SOURCE
    tmp_path.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
    tmp_path.joinpath(path).write_text("x")
    assert Project((tmp_path,), frozenset(), frozenset({path})).classify(path) is FileClass.SOURCE


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
    "load(f'{name}.snap')": "pkg/a.snap",
    "from snapshots import Model": "snapshots/models.py",
    "from pkg.test_utils import x": "pkg/test_utils/__init__.py",
    "ENTRY = 'pkg.testing:plus'": "pkg/testing.py",
    "print 'pkg.testing.Runner'": "pkg/testing.py",
    "# testing": "pkg/testing.py",
}


@pytest.mark.parametrize("code", USERS)
def test_helper_that_source_mentions_is_source(code, tmp_path):
    path = USERS[code]
    project = write(tmp_path, {path: "x", "pkg/used.py": f"{code}\n"})
    assert project.classify(path) is FileClass.SOURCE


@pytest.mark.parametrize("name", ["setup.cfg", "pyproject.toml", "pkg/fast.pyx", "setup.py"])
def test_helper_that_an_entry_point_or_extension_names_is_source(name, tmp_path):
    project = write(tmp_path, {"pkg/testing.py": "x", name: "run = pkg.testing:main\n"})
    assert project.classify("pkg/testing.py") is FileClass.SOURCE


def test_helper_that_another_helper_uses_is_source(tmp_path):
    chain = {
        "pkg/core.py": "from . import testutils",
        "pkg/testutils.py": "from .testing import x",
        "pkg/testing.py": "x",
    }
    project = write(tmp_path, chain)
    assert {*map(project.classify, chain)} == {FileClass.SOURCE}


@pytest.mark.parametrize(
    ("user", "code"),
    [("pkg/used.py", "import contesting"), ("docs/use.md", "testing"), ("pkg/testing.py", "testing = 1"),
     ("tests/test_a.py", "from pkg.testing import check"), ("conftest.py", "from pkg.testing import check")],
)  # fmt: skip
def test_mention_in_tests_documents_or_other_words_does_not_count(user, code, tmp_path):
    project = write(tmp_path, {"pkg/testing.py": "x", user: f"{code}\n"})
    assert project.classify("pkg/testing.py") is FileClass.TEST_SURFACE


@pytest.mark.parametrize("path", ["pkg/testing/__init__.py", "pkg/testing/deep/a.py", "pkg/testing.cpython-311.so"])
def test_module_in_place_of_a_helper_is_test_surface(path, tmp_path):
    project = write(tmp_path, {"pkg/testing.py": "x", "pkg/core.py": "x"})
    assert project.classify(path) is FileClass.TEST_SURFACE
    assert project.classify("pkg/core/a.py") is FileClass.SOURCE


def test_recorded_test_data_is_test_surface_under_any_name(tmp_path):
    project = Project((tmp_path,), frozenset(), test_data=frozenset({"examples/a.json"}))
    assert project.classify("examples/a.json") is FileClass.TEST_SURFACE
    assert project.classify("examples/b.json") is FileClass.SOURCE
