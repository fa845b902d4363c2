import json
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
