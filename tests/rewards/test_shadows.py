import subprocess
import sys
from pathlib import PurePosixPath

import pytest

from turnsmith.rewards.shadows import PROTECTED, find_import_roots, is_shadow


@pytest.fixture
def layers(tmp_path):
    """A package with tests of its own, a module that stands in for Python's own, a folder that is no package."""
    for path in (
        "calc/__init__.py",
        "calc/checks/__init__.py",
        "other/calendar.py",
        "src/packaging/__init__.py",
        "src/org/python/core.py",
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
     "iniconfig", "packaging.py", "calendar.py", "org/python.py", "org/python/core.py", "other/org/python/core/x.py",
     "src/_pytest.pyc", "sitecustomize/__init__.py"],
)  # fmt: skip
def test_what_would_be_imported_in_place_of_the_runner_is_a_shadow(path, layers):
    assert is_shadow(path, find_import_roots(TESTS, layers), layers)


@pytest.mark.parametrize(
    "module",
    ["_pytest", "colorama", "exceptiongroup", "iniconfig", "org", "packaging", "pluggy", "py", "pygments", "pytest",
     "sitecustomize", "tomli", "usercustomize", "argparse", "enum", "json", "os", "pdb", "re", "runpy", "typing", "unittest"],
)  # fmt: skip
def test_what_pytest_imports_is_protected_as_module_and_as_package(module, tmp_path):
    roots = find_import_roots([], (tmp_path,))
    for path in (f"{module}.py", f"{module}/__init__.py", f"{module}.cpython-311-x86_64-linux-gnu.so", module):
        assert is_shadow(path, roots, (tmp_path,))


def test_whatever_pytest_asks_for_here_is_protected(tmp_path):
    """What a real run of pytest imports or tries to, in a folder of its own and without plugins."""
    (tmp_path / "test_a.py").write_text("def test_a():\n    assert [1, 2] == [1, 3]\n")
    run = [sys.executable, "-X", "importtime", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider"]
    log = subprocess.run(
        run, cwd=tmp_path, capture_output=True, text=True, check=False, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ).stderr.partition("runpy")[2]
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in log.splitlines() if "|" in line}
    assert {"_pytest", "pluggy", "argparse"} < imported
    assert imported - {"test_a"} <= PROTECTED


@pytest.mark.parametrize(
    "path",
    ["calc/json.py", "calc/checks/random.py", "other/calendar.py", "other/calendar/__init__.py", "src/packaging/__init__.py",
     "src/packaging/new.py", "token.json", "code/x.py", "pytest/b.py", "pkg/pytest/__init__.py", "src", "src2/json.py",
     "org/apache/X.java", "src/org/python/new.py"],
)  # fmt: skip
def test_what_is_there_already_or_imported_by_another_name_is_not(path, layers):
    assert not is_shadow(path, find_import_roots(TESTS, layers), layers)
