import subprocess
import sys
from pathlib import PurePosixPath

import pytest

from turnsmith.grading.import_shadowing import find_import_roots, find_protected, is_shadow


@pytest.fixture
def layers(tmp_path):
    """Make a package with tests, a module that shadows one of Python, and a folder that is no package."""
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


COMMAND = "PYTHONPATH=other:$PYTHONPATH pytest"


@pytest.mark.parametrize(
    "path",
    ["pytest/__init__.py", "json.py", "src/json.py", "other/json/__init__.py", "_pytest/__init__.py", "pluggy.cpython-311.so",
     "iniconfig", "packaging.py", "calendar.py", "org/python.py", "org/python/core.py", "other/org/python/core/x.py",
     "src/_pytest.pyc", "sitecustomize/__init__.py"],
)  # fmt: skip
def test_new_module_that_shadows_the_runner_is_detected(path, layers):
    assert is_shadow(path, find_import_roots(COMMAND, layers), layers)


@pytest.mark.parametrize(
    "module",
    ["_pytest", "colorama", "exceptiongroup", "iniconfig", "org", "packaging", "pluggy", "py", "pygments", "pytest",
     "sitecustomize", "tomli", "usercustomize", "argparse", "enum", "json", "os", "pdb", "re", "runpy", "typing", "unittest"],
)  # fmt: skip
def test_imports_of_pytest_are_protected_as_module_and_package(module, tmp_path):
    roots = find_import_roots("pytest", (tmp_path,))
    for path in (f"{module}.py", f"{module}/__init__.py", f"{module}.cpython-311-x86_64-linux-gnu.so", module):
        assert is_shadow(path, roots, (tmp_path,))


@pytest.mark.parametrize(
    "command, roots",
    [
        ("PYTHONPATH=lib:$PYTHONPATH python -m pytest", {"lib"}),
        ('PYTHONPATH="./lib/:other:${PYTHONPATH}" pytest -x', {"lib", "other"}),
        ("cd lib && python -m pytest", {"lib", "lib/src"}),
        ("cd lib && cd more && python -m pytest", {"lib", "lib/src", "lib/more", "lib/more/src"}),
        ("cd /testbed && python -m pytest", set()),
        ("cd lib && PYTHONPATH=more python -m pytest", {"lib", "lib/src", "lib/more", "more"}),
        ("python -m pytest --cov=lib lib", set()),
    ],
)
def test_import_roots_are_read_from_the_command(command, roots, tmp_path):
    found = {str(root) for root in find_import_roots(command, (tmp_path,)) if "$" not in str(root)}
    assert found == {".", "src", *roots}


@pytest.mark.parametrize(
    "name, text",
    [
        ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["lib"]\n'),
        ("pyproject.toml", '[tool.pytest]\npythonpath = ["lib"]\n'),
        ("pytest.toml", '[pytest]\npythonpath = ["lib"]\n'),
        ("pytest.ini", "[pytest]\npythonpath = lib\n"),
        ("tox.ini", "[pytest]\npythonpath =\n    lib\n"),
        ("setup.cfg", "[tool:pytest]\npythonpath = lib\n"),
        ("pyproject.toml", '[tool]\npytest.ini_options.pythonpath = [\n    "other", # first\n    "lib",\n]\n'),
        ("pytest.toml", "[pytest]\npythonpath = ['more lib', 'lib']\n"),
        ("pytest.ini", "[pytest]\naddopts = -q\npythonpath = other\n    lib\ntestpaths = tests\n"),
    ],
)
def test_import_roots_are_read_from_pytest_settings(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    assert is_shadow("lib/pytest.py", find_import_roots("pytest", (tmp_path / "none", tmp_path)), (tmp_path,))


def test_settings_are_read_in_the_folder_of_the_command(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/pytest.ini").write_text("[pytest]\npythonpath = lib\n")
    assert is_shadow("sub/lib/pytest.py", find_import_roots("cd sub && pytest", (tmp_path,)), (tmp_path,))
    assert not is_shadow("sub/lib/pytest.py", find_import_roots("pytest", (tmp_path,)), (tmp_path,))


@pytest.mark.parametrize(
    "content", [b"\xff[pytest\npythonpath = lib", b"[tool.pytest]\npythonpath = 7\n", b"pythonpath"]
)
@pytest.mark.parametrize("name", ["pyproject.toml", "pytest.ini"])
def test_unreadable_settings_raise_no_error(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert find_import_roots("pytest", (tmp_path,)) >= {PurePosixPath(), PurePosixPath("src")}


def test_installed_pytest_plugins_are_protected(layers):
    """Plugins of this environment are among them."""
    roots = find_import_roots("pytest", layers)
    assert is_shadow("pytest_asyncio.py", roots, layers) and is_shadow("pytest_timeout/__init__.py", roots, layers)
    assert not is_shadow("pytest_nowhere.py", roots, layers)


def test_all_imports_of_a_real_pytest_run_are_protected(tmp_path):
    """Check the imports that pytest tries in an empty folder without plugins."""
    (tmp_path / "test_a.py").write_text("def test_a():\n    assert [1, 2] == [1, 3]\n")
    run = [sys.executable, "-X", "importtime", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider"]
    log = subprocess.run(
        run, cwd=tmp_path, capture_output=True, text=True, check=False, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ).stderr.partition("runpy")[2]
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in log.splitlines() if "|" in line}
    assert {"_pytest", "pluggy", "argparse"} < imported
    assert imported - {"test_a"} <= find_protected()


@pytest.mark.parametrize(
    "path",
    ["calc/json.py", "calc/checks/random.py", "other/calendar.py", "other/calendar/__init__.py", "src/packaging/__init__.py",
     "src/packaging/new.py", "token.json", "code/x.py", "pytest/b.py", "pkg/pytest/__init__.py", "src", "src2/json.py",
     "org/apache/X.java", "src/org/python/new.py"],
)  # fmt: skip
def test_existing_and_nested_modules_are_not_shadows(path, layers):
    assert not is_shadow(path, find_import_roots(COMMAND, layers), layers)
