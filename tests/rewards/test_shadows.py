from pathlib import PurePosixPath

import pytest

from turnsmith.rewards.shadows import find_import_roots, is_shadow


@pytest.fixture
def layers(tmp_path):
    """A package with tests of its own, a module that stands in for Python's own, a folder that is no package."""
    for path in (
        "calc/__init__.py",
        "calc/checks/__init__.py",
        "other/calendar.py",
        "src/packaging/__init__.py",
        "pytest/a",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    return (tmp_path / "nothing", tmp_path)


TESTS = ["calc/checks/check.py", "other/check.py"]


def test_imports_start_where_packages_end(layers):
    roots = find_import_roots([*TESTS, ".hidden/check.py"], layers)
    assert roots == {PurePosixPath(root) for root in ("", "src", "other", ".hidden")}


@pytest.mark.parametrize(
    "path",
    ["pytest/__init__.py", "json.py", "src/json.py", "other/json/__init__.py", "_pytest/__init__.py", "pluggy.cpython-311.so",
     "iniconfig", "packaging.py", "calendar.py", "src/_pytest.pyc", "sitecustomize/__init__.py"],
)  # fmt: skip
def test_what_would_be_imported_in_place_of_the_runner_is_a_shadow(path, layers):
    assert is_shadow(path, find_import_roots(TESTS, layers), layers)


@pytest.mark.parametrize(
    "path",
    ["calc/json.py", "calc/checks/random.py", "other/calendar.py", "other/calendar/__init__.py", "src/packaging/__init__.py",
     "src/packaging/new.py", "token.json", "code/x.py", "pytest/b.py", "pkg/pytest/__init__.py", "src", "src2/json.py"],
)  # fmt: skip
def test_what_is_there_already_or_imported_by_another_name_is_not(path, layers):
    assert not is_shadow(path, find_import_roots(TESTS, layers), layers)
