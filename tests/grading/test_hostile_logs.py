"""Logs are parsed in the training process, so no log may take much time or memory."""

import time
import tracemalloc

import pytest

from turnsmith.grading.logparse import PARSERS, parse_log

KNOWN = ["tests/test_a.py::test_a"]
SUMMARY = "= short test summary info =\n"
SIZE = 20_000
HOSTILE = {
    "spaces inside a reason": "XFAIL tests/test_a.py::test_a - x" + " " * SIZE + "y\n",
    "many separators": "XFAIL tests/test_b.py::test_b[ - " + "x - " * (SIZE // 4) + "\n",
    "many lines of subtests": "SUBFAIL x - y\n" * (SIZE // 14),
    "one long word": "FAILED " + "x" * SIZE + "\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_log_needs_little_time_and_memory(name):
    tracemalloc.start()
    started = time.process_time()
    parse_log(SUMMARY + HOSTILE[name], "pytest", KNOWN)
    took_s, (_, peak_bytes) = time.process_time() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took_s < 0.5
    assert peak_bytes < 100 * SIZE


MANY = 1_000_000
"""Maximum number of characters of a sandbox's output."""
ENDLESS = {
    "spaces": "x" + " " * MANY + "y",
    "lines of spaces": ("x" + " " * 7998 + "y\n") * (MANY // 8000),
    "statuses": "x PASSED (" * (MANY // 10),
    "parentheses": "(1" * (MANY // 2),
    "dashes": "PASSED a[" + " - " * (MANY // 3),
    "escapes": "\x1b]" * (MANY // 2),
    "progress": "x PASSED" + " [ " * (MANY // 3),
    "ticks": "✓ a (1" + " (1 ms" * (MANY // 6),
    "dots": "a " + ". = 1 s = " * (MANY // 10),
    "colons": "test: " + "a: . " * (MANY // 5),
    "brackets": "[ OK ] (" * (MANY // 8),
    "suites": "".join("  " * (depth % 900) + "a\n" for depth in range(MANY // 900)),
    "browsers": "Chrome 1 (" * (MANY // 10),
    "failures": "  1)\n" * (MANY // 5),
    "ins": "[err]: a" + " in a" * (MANY // 5),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_longest_log_takes_seconds_with_any_parser(name):
    for parser in {reads: parser for parser, reads in PARSERS.items()}.values():
        started = time.process_time()
        parse_log(ENDLESS[name], parser)
        assert time.process_time() - started < 5, parser
