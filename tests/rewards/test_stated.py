"""Whose names a test file holds: the test's own and Python's, or those of the code under test."""

import ast

import pytest

from turnsmith.rewards.stated import find_own, find_stated, read_context, read_file


@pytest.mark.parametrize(
    "line",
    [
        "def x(): ...",
        "async def x(): ...",
        "class T:\n    def x(self): ...",
        "import os.path as x",
        "import xml.etree.ElementTree as x",
        "from json import dumps as x",
        "from collections.abc import Mapping as x",
    ],
)
def test_what_a_file_defines_or_takes_from_the_library_is_its_own(line):
    assert "x" in find_own(ast.parse(line))


@pytest.mark.parametrize(
    "line", ["import x", "import package.x as x", "from package import x", "from .json import x", "from . import x", ""]
)
def test_what_it_takes_from_elsewhere_is_not(line):
    assert "x" not in find_own(ast.parse(line))


def test_a_name_that_comes_from_elsewhere_is_not_its_own_though_python_or_the_file_has_it_too():
    own = find_own(ast.parse("from package import sorted, add\nclass T:\n    def add(self): ...\nimport os.path"))
    assert not {"sorted", "add"} & own and {"len", "os"} <= own


@pytest.mark.parametrize(
    "definition",
    [
        "def x(): return lib.y()",
        "def x(c):\n    return lib.y(c)",
        "x = lib.y()",
        "y = lib.y()\nx = [y]",
        "def y(): return lib.y()\ndef x(): return y()",
    ],
)
def test_what_a_file_makes_by_means_of_others_is_not_its_own(definition):
    assert "x" not in find_own(ast.parse(f"import lib\n{definition}"))


@pytest.mark.parametrize(
    "definition",
    [
        "x = [1, len('a')]",
        "def x(c):\n    return c.strip()",
        "ROWS = [1]\nx = sorted(ROWS)",
        "def x(n): return n and x(n - 1)",
    ],
)
def test_what_a_file_makes_of_its_own_is_its_own(definition):
    assert "x" in find_own(ast.parse(f"import lib\n{definition}"))


STATED = {
    "assert p.x == sorted([2, 1])": "sorted([2, 1])",
    "assert self.p.x == dict(a=1)": "dict(a=1)",
    "assert thing.x == sorted([2, 1])": "sorted([2, 1])",
    "want = dedent('a')\n    assert p.x == want": "want",
    "result = lib.f()\n    assert sorted(result) == sorted(ROWS)": "sorted(ROWS)",
    "for got, want in zip(lib.f(), ROWS):\n        assert got == want": "want",
    "for got, want in lib.pairs(ROWS):\n        assert got == want": "got, want",
    "got, n = lib.f()\n    assert got == p": "got, p",
    "assert lib.f() == lib.g()": "",
    "out = lib.f()\n    assert out == lib.g(out)": "",
}


@pytest.mark.parametrize("body", STATED)
def test_the_stated_side_is_what_the_test_alone_has_part_in_or_else_what_may_be_either(body):
    head = "import lib\nfrom textwrap import dedent\nROWS = [1, 2]\nthing = lib.Thing()\n"
    module = ast.parse(f"{head}def test_it(self, p):\n    {body}\n")
    test = module.body[-1]
    condition = next(node.test for node in ast.walk(test) if isinstance(node, ast.Assert))
    stated = find_stated(condition.left, condition.comparators[0], read_context(test, read_file(module)))
    assert ", ".join(map(ast.unparse, stated)) == STATED[body]
