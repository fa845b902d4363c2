"""Whose names a test file holds: the test's own and Python's, or those of the code under test."""

import ast

import pytest

from turnsmith.rewards.stated import find_own


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
