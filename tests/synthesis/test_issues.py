from turnsmith.grading.log_parsers.base import TestResult
from turnsmith.grading.testing import SuiteReport
from turnsmith.synthesis.issues import write_issue


def report(**results):
    return SuiteReport({f"tests/test_{name}.py::test_it": result for name, result in results.items()}, 1, 0.1)


ONE = report(a=TestResult("failed", "assert 3 == 4"), b=TestResult("passed"), c=TestResult("failed", "always"))


def test_vagueness_removes_messages_then_names():
    known = ["tests/test_c.py::test_it"]
    assert (
        write_issue(ONE, vagueness=0, known_failures=known)
        == "One test fails:\n\ntests/test_a.py::test_it: assert 3 == 4\n"
    )
    assert write_issue(ONE, vagueness=0.5, known_failures=known) == "One test fails:\n\ntests/test_a.py::test_it\n"
    assert write_issue(ONE, vagueness=1, known_failures=known) == "One test fails:\n\ntests/test_a.py\n"


def test_long_lists_and_messages_are_shortened():
    many = report(**{f"n{i}": TestResult("error", "x" * 999) for i in range(9)})
    lines = write_issue(many, vagueness=0).splitlines()
    assert lines[0] == "9 tests fail:"
    assert lines[-1] == "and 4 more"
    assert max(map(len, lines)) < 240


def test_memory_addresses_are_masked():
    texts = {write_issue(report(a=TestResult("failed", f"<object at 0x7f{i}ab99>")), vagueness=0) for i in range(3)}
    assert len(texts) == 1
