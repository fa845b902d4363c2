import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.errors import UsageError
from turnsmith.grading.log_parsers.base import SEVERITY, STATUSES
from turnsmith.grading.log_parsers.summary import split_message
from turnsmith.grading.logparse import parse_log

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
def test_written_summary_is_read_with_known_ids(tests):
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
def test_messages_are_split_from_ids(text, expected):
    assert split_message(text) == expected


def test_only_the_summary_counts():
    assert parse_log(f"PASSED a.py::t\n{HEADER}\nFAILED a.py::u - no\n", "pytest").keys() == {"a.py::u"}
    assert parse_log("PASSED a.py::t\n", "pytest") == {}


def test_test_listed_twice_gets_its_worst_status():
    log = f"{HEADER}\nFAILED a.py::t - no\nERROR a.py::u - teardown\nPASSED a.py::t\nPASSED a.py::u\n"
    assert {test: result.status for test, result in parse_log(log, "pytest").items()} == {
        "a.py::t": "failed",
        "a.py::u": "error",
    }


def test_failed_subtest_fails_its_test():
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


def test_parser_lines_reads_every_line():
    assert parse_log("PASSED one\nsaid FAILED\nFAILED two three\n", "lines").keys() == {"one", "two three"}


def test_unknown_parser_is_named_in_the_error():
    with pytest.raises(UsageError, match=r"'smoke'.*pytest, lines"):
        parse_log("", "smoke")


def statuses(log, parser, known=()):
    return {test: result.status for test, result in parse_log(log, parser, known).items()}


@pytest.mark.parametrize("parser", ["verbose", "tox", "parse_log_pytest_v2"])
def test_status_at_the_end_of_a_line_is_read(parser):
    log = (
        "py311: commands[0]> pytest -v\n"
        "a.py::t PASSED                                  [ 10%]\n"
        "a.py::u[x - y] FAILED [100%]\na.py::v SKIPPED (0.02s)\nERROR a.py::w - boom\nPASSED a.py::x [12 ms]\n"
        "  py311: OK (1.20 seconds)\n"
    )
    assert statuses(log, parser) == {
        "a.py::t": "passed", "a.py::u[x - y]": "failed", "a.py::v": "skipped", "a.py::w": "error", "a.py::x": "passed",
    }  # fmt: skip


REFERENCE = re.compile(rf"(\S.*?) +({'|'.join(STATUSES)})(?: +\(.*\))?(?: +\[ *\d+%\])?\s*")
"""Pattern of a line that ends with a status; slow for lines with many blanks."""
pieces = st.sampled_from(["a.py::t", " ", "  ", "PASSED", "FAILED", "(", ")", "(no)", "[ 7%]", "[100%]", "x", "[y]"])


@given(st.lists(pieces, max_size=9).map("".join))
def test_status_at_the_end_is_read_as_by_a_slow_pattern(line):
    read = statuses(line, "verbose")
    expected = REFERENCE.fullmatch(line)
    if expected and not expected[1].startswith(("PASSED ", "FAILED ")):
        assert read[expected[1]] == STATUSES[expected[2]]
    elif not expected:
        assert not any(line.startswith(name) for name in read)


@pytest.mark.parametrize("parser", ["options", "parse_log_pytest_options"])
def test_path_in_a_parameter_is_cut_to_its_last_part(parser):
    log = "PASSED a.py::t[/tmp/x7/in.py]\nFAILED a.py::t[//keep/it] - no\nPASSED a.py::t[plain]\nFAILED a.py::t[/other/in.py]\n"
    assert statuses(log, parser) == {
        "a.py::t[/in.py]": "failed",
        "a.py::t[//keep/it]": "failed",
        "a.py::t[plain]": "passed",
    }


@pytest.mark.parametrize("parser", ["pytest", "lines", "verbose"])
def test_terminal_escapes_hide_no_status(parser):
    lines = [
        "\x1b[31mFAILED\x1b[0m a.py::t - no\x1b[1A\x1b[2K",
        "\x1b]0;title\x07PASSED a.py::u",
        "ERROR a.py::v\rPASSED a.py::v\r",
    ]
    log = "\n".join([HEADER, *lines, ""])
    assert statuses(log, parser) == {"a.py::t": "failed", "a.py::u": "passed", "a.py::v": "error"}


@pytest.mark.parametrize("parser", ["pytest", "lines", "verbose", "options"])
@given(data=st.data())
def test_forged_line_never_improves_a_status(parser, data):
    tests = data.draw(st.dictionaries(name, word, min_size=1, max_size=5))
    honest = [HEADER, *(f"{status} {test}" for test, status in tests.items())]
    place = data.draw(st.integers(1, len(honest)))
    forged = data.draw(st.builds("{} {}".format, word, st.sampled_from(sorted(tests))) | printable | st.just(HEADER))
    before = statuses("\n".join(honest), parser, tests)
    after = statuses("\n".join([*honest[:place], forged, *honest[place:]]), parser, tests)
    assert all(SEVERITY.index(after[test]) >= SEVERITY.index(status) for test, status in before.items())


def test_real_pytest_logs_are_read(tmp_path):
    (tmp_path / "test_a.py").write_text(
        "import pytest\ndef test_p(): pass\ndef test_f(): assert 0\n@pytest.mark.skip\ndef test_s(): pass\n"
        "@pytest.mark.xfail\ndef test_x(): assert 0\n@pytest.fixture\ndef bad(): assert 0\ndef test_e(bad): pass\n"
        "@pytest.mark.parametrize('v', ['a - b', 'c d'])\ndef test_v(v): pass\n"
    )
    expected = {
        "p": "passed", "f": "failed", "s": "skipped", "x": "xfailed", "e": "error", "v[a - b]": "passed", "v[c d]": "passed",
    }  # fmt: skip
    expected = {f"test_a.py::test_{test}": status for test, status in expected.items()}
    for options, parser in {"-rA --no-fold-skipped": "pytest", "-v": "verbose", "-v --color=yes -rA": "tox"}.items():
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options.split(), "test_a.py"]
        log = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"}
        ).stdout
        assert expected.items() <= statuses(log, parser, expected).items(), parser
