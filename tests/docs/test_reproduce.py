"""Table of docs/reproduce.md: each equation has a row, and each row's function, test and measurement exist."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EQUATIONS = set(
    """trajectory policy R R_final R_length advantage broadcast ratio clip objective PPO GRPO RFT Pass@1 Pass@k""".split()
)
"""Equations of the paper: §3.1, §3.2 with Eq. 8, §4.2, App. A, Table 1."""
FACTS = {
    *("§3.3 command", "§3.3 demonstration", "§4.1 filters", "§4.1 Verified-50", "§4.2 masking", "§4.2 packing"),
    *("§4.3 groups", "§4.3 dynamic sampling", "§4.3 curriculum", "§4.3 plateau", "Table 3"),
    *("App. C sampling", "§5.2 sampler", "§5.2 long trajectories"),
}


def list_rows():
    """Return the rows of the page's tables as lists of cells, without headings."""
    lines = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in rows if row[0] not in ("equation", "fact")]


ROWS = list_rows()
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])


def find_object(dotted):
    """Return what a dotted name of a module or of an attribute of a module names, or None."""
    try:
        return import_module(dotted)
    except ImportError:
        module, _, name = dotted.rpartition(".")
        return getattr(import_module(module), name, None)


def list_tests(file):
    """Return the tests at the top of a file, which pytest collects."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    functions = (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test")}


def test_every_equation_and_fact_has_one_row():
    names = [row[0] for row in ROWS]
    assert sorted(names) == sorted(EQUATIONS | FACTS)


@each_row
def test_the_function_exists(row):
    [name] = re.findall(r"`(turnsmith\.[\w.]+)`", row[2])
    assert find_object(name) is not None


@each_row
def test_the_test_is_collected(row):
    [(file, name)] = re.findall(r"`(tests/[\w/]+/test_\w+\.py)::(\w+)`", row[3])
    assert name in list_tests(ROOT / file)


@each_row
def test_the_measurement_exists(row):
    named = re.findall(r"`((?:bench|docs)/[\w.-]+)`", row[4])
    assert row[4] == "the test is exact" or (named and all((ROOT / name).is_file() for name in named))
