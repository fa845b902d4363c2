"""Test commands that need no shell, and equal results of a shell."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.grading.commands import read_plain
from turnsmith.grading.testing import Suite
from turnsmith.types import PYTEST_COMMAND


@pytest.mark.parametrize(
    ("command", "program", "arguments"),
    [
        (PYTEST_COMMAND, "python", PYTEST_COMMAND.split()[3:]),
        ("python -m pytest", "python", []),
        ("python3  -m pytest -x ", "python3", ["-x"]),
        ("pytest tests/test_a.py::Test::test_b", "pytest", ["tests/test_a.py::Test::test_b"]),
        (
            "pytest -k 'a or b' --deselect=\"t.py::test[x y]\"''",
            "pytest",
            ["-k", "a or b", "--deselect=t.py::test[x y]"],
        ),
    ],
)
def test_plain_command_is_parsed(command, program, arguments):
    plain = read_plain(command)
    assert (plain.program, list(plain.arguments)) == (program, arguments)
    assert not plain.variables and not plain.search_path


@pytest.mark.parametrize(
    "command",
    [
        "cd src && python -m pytest",
        "python -m pytest $FLAGS",
        'python -m pytest "$FLAGS"',
        "python -m pytest tests/*.py",
        "python -m pytest test_a.py::test[1]",
        "python -m pytest ~/tests",
        "python -m pytest {a,b}",
        "python -m pytest; true",
        "python -m pytest > log",
        "python -m pytest #",
        "python -m pytest 'a",
        "python -m pytest\npython -m pytest",
        "python -m unittest",
        "python2 -m pytest",
        "tox",
        "",
        "PATH=/tmp pytest",
        "LD_PRELOAD=x.so pytest",
        "LC_ALL=C pytest",
        "PYTHONPATH=src pytest",
        "PYTHONPATH=$PYTHONPATH:src pytest",
        "PYTHONSTARTUP=x pytest",
        "PYTEST_PLUGINS=x pytest",
        "HOME=/tmp pytest",
        "A=$B pytest",
        "A=1; pytest",
        "1A=2 pytest",
    ],
)
def test_command_that_needs_a_shell_is_not_plain(command):
    assert read_plain(command) is None


def test_variables_and_search_path_are_parsed():
    plain = read_plain("CI=1 PYTHONPATH=src:lib:$PYTHONPATH NAME='two words' EMPTY= pytest -x")
    assert plain.variables == {"CI": "1", "NAME": "two words", "EMPTY": ""}
    assert plain.search_path == ("src", "lib")
    assert read_plain('PYTHONPATH="src:${PYTHONPATH}" pytest').search_path == ("src",)


def test_only_pytest_suites_can_be_plain():
    assert Suite("pytest", ()).plain_command
    assert Suite("pytest", (), parser="lines").plain_command is None


WORDS = st.text(st.sampled_from("ab1 '\"=:/$*~#;\\`!{[,.-_%"), max_size=8)


@given(WORDS, WORDS)
def test_shell_splits_a_plain_command_equally(value, rest):
    command = f"A={value} pytest {rest}"
    plain = read_plain(command)
    if plain is None:
        return
    says = 'pytest() { printf "%s\\0" "$A" "$@"; }; '
    run = subprocess.run(["bash", "-c", says + command], capture_output=True, text=True)
    assert run.stdout.split("\0")[:-1] == [plain.variables["A"], *plain.arguments], run.stderr
