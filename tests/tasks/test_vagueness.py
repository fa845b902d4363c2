"""Texts that say too little, each by its reason, beside texts that say enough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.tasks.vagueness import find_vagueness

CLEAR = """total() fails

With a missing price it ends with a TypeError. It should add up what has a price:

- `total([1, None])` gives 1
- `total([])` gives 0
"""
POINTS = """Prices that may be missing

- total() raises a TypeError where one of the prices is None, and should leave it out
- mean() divides by the number of all prices, and should divide by those that are there
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Fix #12", "few words"),
        ("Graceful upgrade path for 0.28.", "few words"),
        ("Working fix for sets\n\n* Add failing test\n\n* Fix the union\n\n* Tweak changelog\n\n* Lint", "a list of commits"),
        ("Sets (#680)\n\n- Add a test that fails\n- Remove what is not used\n- More docs, fixes #7", "a list of commits"),
        ("Version 1.2.0 (#31)\n\n* Drop Python 3.8, and with it all that was there for its sake only", "release notes"),
        ("## v2.0.1\n\nThanks to all.\n\n* Prices that are missing are no longer taken for 0 by mean()", "release notes"),
        ("Next\n\n### Added\n- A mean of prices that are there\n### Fixed\n- Totals of nothing at all", "release notes"),
        (CLEAR, ""),
        (POINTS, ""),
        ("Since release 1.2 it fails\n\n1. Make a shop, one price missing.\n* Call total() on it.\n* See a TypeError.", ""),
        ("Version 1.2.0 breaks the shop: total() ends with a TypeError where a price is missing, and 1.1 did not", ""),
    ],
)  # fmt: skip
def test_a_vague_text_has_a_reason(text, reason):
    assert find_vagueness(text) == reason


@given(st.text())
def test_of_any_text_something_can_be_said(text):
    assert find_vagueness(text) in ("", "few words", "release notes", "a list of commits")
