import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.errors import UsageError
from turnsmith.rewards.logparse import STATUSES, parse_log, split_message

HEADER = "=" * 20 + " short test summary info " + "=" * 20
printable = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
name = st.builds(
    lambda file, test, parameter: f"tests/{file}.py::{test}" + (f"[{parameter}]" if parameter else ""),
    st.from_regex(r"\Atest_[a-z]{1,5}\Z"),
    st.from_regex(r"\Atest_[a-z]{1,5}\Z"),
    printable,
)
word = st.sampled_from(sorted(STATUSES))


@given(st.dictionaries(name, st.tuples(word, printable.map(str.strip))))
def test_what_is_written_is_read_where_the_ids_are_known(tests):
    lines = [f"{word} {test}" + (f" - {message}" if message else "") for test, (word, message) in tests.items()]
    results = parse_log("\n".join(["noise", HEADER, *lines, "1 failed in 0.1s"]), "pytest", known=list(tests))
    expected = {test: (STATUSES[word], message) for test, (word, message) in tests.items()}
    assert {test: (result.status, result.message) for test, result in results.items()} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.py::t", ("a.py::t", "")),
        ("a.py::t - boom - crash", ("a.py::t", "boom - crash")),
        ("a.py::t[x - y]", ("a.py::t[x - y]", "")),
        ("a.py::t[x - y] - boom [z]", ("a.py::t[x - y]", "boom [z]")),
        ("a.py - SyntaxError: invalid", ("a.py", "SyntaxError: invalid")),
    ],
)
def test_messages_are_cut_from_ids(text, expected):
    assert split_message(text) == expected


def test_only_the_summary_counts():
    assert parse_log(f"PASSED a.py::t\n{HEADER}\nFAILED a.py::u - no\n", "pytest").keys() == {"a.py::u"}
    assert parse_log("PASSED a.py::t\n", "pytest") == {}


def test_a_test_listed_twice_takes_its_worst_status():
    log = f"{HEADER}\nFAILED a.py::t - no\nERROR a.py::u - teardown\nPASSED a.py::t\nPASSED a.py::u\n"
    assert {test: result.status for test, result in parse_log(log, "pytest").items()} == {
        "a.py::t": "failed",
        "a.py::u": "error",
    }


def test_a_test_fails_with_its_subtests():
    log = (
        f"{HEADER}\nPASSED a.py::T::t\nPASSED a.py::T::u\nSUBSKIPPED(i=1) a.py::T::u - Skipped: no\n"
        "SUBFAILED[x - [y] (i=1) a.py::T::t - assert 1 == 0\nSUBFAILED(i=2) b.py::gone - no\n"
    )
    results = parse_log(log, "pytest")
    assert {test: result.status for test, result in results.items()} == {
        "a.py::T::t": "failed",
        "a.py::T::u": "passed",
        "(i=2) b.py::gone - no": "failed",
    }
    assert results["a.py::T::t"].message == "assert 1 == 0"


def test_the_generic_form_reads_every_line():
    assert parse_log("PASSED one\nsaid FAILED\nFAILED two three\n", "lines").keys() == {"one", "two three"}


def test_an_unknown_parser_is_named():
    with pytest.raises(UsageError, match=r"'tap'.*pytest, lines"):
        parse_log("", "tap")
