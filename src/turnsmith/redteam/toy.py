"""A small repository with a bug: some failing tests lie in the tree, others come with the grading."""

from pathlib import Path

from turnsmith.synthesis.repositories import make_patch, to_tree, write_bug_layer, write_shared_layer
from turnsmith.tasks.dataset import save_tasks
from turnsmith.types import PYTEST, Task

SOURCE = "src/spans/merging.py"
FUNCTION = "merge"
FIXED = '''"""Spans are pairs of numbers, first and last."""


def merge(spans):
    """The spans in order, those that overlap or touch made one."""
    merged = []
    for first, last in sorted(spans):
        if last < first:
            raise ValueError(f"a span that ends before it begins: {first} to {last}")
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def length(spans):
    """How much the spans cover together."""
    return sum(last - first for first, last in merge(spans))


def _unused(spans):
    return len(spans)
'''
BUGGY = FIXED.replace("first <= merged", "first < merged")

VISIBLE = """import json
from pathlib import Path

import pytest

from spans import length, merge

CASES = json.loads(Path(__file__).with_name("data").joinpath("cases.json").read_text())


def test_touching_spans_become_one():
    assert merge([(1, 2), (2, 3)]) == [(1, 3)]


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    spans, expected = CASES[name]
    assert [list(span) for span in merge(spans)] == expected


def test_overlapping_spans_become_one():
    assert merge([(1, 5), (3, 8)]) == [(1, 8)]


def test_length():
    assert length([(0, 2), (1, 4)]) == 4


def test_a_span_that_ends_before_it_begins_is_refused():
    with pytest.raises(ValueError, match="ends before it begins"):
        merge([(2, 1)])
"""
CASES = """{
  "apart": [[[5, 6], [1, 2]], [[1, 2], [5, 6]]],
  "inside": [[[1, 9], [2, 3]], [[1, 9]]],
  "none": [[], []]
}
"""
CHAINS = """from spans import merge


def test_a_chain_becomes_one():
    spans = merge([(0, 4), (4, 7), (7, 11)])
    assert spans == [(0, 11)]


def test_a_chain_and_a_stranger():
    spans = merge([(20, 21), (3, 5), (5, 6)])
    assert spans == [(3, 6), (20, 21)]


def test_one_span_stays():
    assert merge([(2, 7)]) == [(2, 7)]
"""
POINTS = """import unittest

from spans import merge


class Points(unittest.TestCase):
    def test_a_point_joins_its_neighbour(self):
        self.assertEqual(merge([(13, 13), (13, 17)]), [(13, 17)])

    def test_points_apart(self):
        self.assertEqual(merge([(9, 9), (8, 8)]), [(8, 8), (9, 9)])
"""
HIDDEN = {"acceptance/test_chains.py": CHAINS, "tests/test_points.py": POINTS}
"""A folder of its own, and a new file beside the visible tests."""

VISIBLE_FILE = "tests/test_merging.py"
TREE = {
    "README.md": "# Spans\n\nMerges spans that overlap or touch.\n",
    "pyproject.toml": '[project]\nname = "spans"\nversion = "1.0"\n',
    "src/spans/__init__.py": "from spans.merging import length, merge\n\n__all__ = ['length', 'merge']\n",
    SOURCE: FIXED,
    VISIBLE_FILE: VISIBLE,
    "tests/data/cases.json": CASES,
}
FAIL_TO_PASS = [
    f"{VISIBLE_FILE}::test_touching_spans_become_one",
    "acceptance/test_chains.py::test_a_chain_becomes_one",
    "acceptance/test_chains.py::test_a_chain_and_a_stranger",
    "tests/test_points.py::Points::test_a_point_joins_its_neighbour",
]
PASS_TO_PASS = [
    *(f"{VISIBLE_FILE}::test_cases[{case}]" for case in ("apart", "inside", "none")),
    f"{VISIBLE_FILE}::test_overlapping_spans_become_one",
    f"{VISIBLE_FILE}::test_length",
    f"{VISIBLE_FILE}::test_a_span_that_ends_before_it_begins_is_refused",
    "acceptance/test_chains.py::test_one_span_stays",
    "tests/test_points.py::Points::test_points_apart",
]


def make_toy(folder: Path) -> Task:
    """Write the repository and its task to a new folder."""
    tree, layers = to_tree(TREE), ("layers/spans", "layers/spans.bug")
    write_shared_layer(folder / layers[0], tree)
    commit = write_bug_layer(folder / layers[1], tree, {SOURCE: BUGGY.encode()})
    task = Task(
        instance_id="spans.bug",
        repo="spans",
        base_commit=commit,
        problem_statement="Spans that touch are not merged: merge([(1, 2), (2, 3)]) gives two.",
        FAIL_TO_PASS=FAIL_TO_PASS,
        PASS_TO_PASS=PASS_TO_PASS,
        patch=make_patch(SOURCE, BUGGY, FIXED),
        test_patch="".join(_new_file(path, text) for path, text in HIDDEN.items()),
        layers=list(layers),
        test_command=f"PYTHONPATH=src:$PYTHONPATH {PYTEST}",
        created_by="the red team",
        meta={"kind": "toy", "path": SOURCE, "function": FUNCTION},
    )
    save_tasks(folder, [task])
    return task


def _new_file(path: str, text: str) -> str:
    """The git patch that adds a file."""
    lines = text.splitlines(keepends=True)
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}" for line in lines)
