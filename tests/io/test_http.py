import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.io.http import read_wait


@pytest.mark.parametrize(
    ("value", "seconds"), [("3", 3.0), ("0.5", 0.5), ("", None), ("soon", None), ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0)]
)
def test_a_retry_wait_is_a_number_or_a_date(value, seconds):
    assert read_wait({"retry-after": value}) == seconds


@given(st.text())
def test_any_retry_header_gives_nonnegative_seconds(value):
    assert (read_wait({"retry-after": value}) or 0.0) >= 0
