import pytest

from turnsmith.grading import judging
from turnsmith.grading.log_parsers.base import TestResult
from turnsmith.grading.testing import Suite, SuiteReport, run_suite
from turnsmith.synthesis.bugs import Bug
from turnsmith.synthesis.mutators import find_mutations
from turnsmith.synthesis.repositories import to_tree, write_candidate, write_repository
from turnsmith.synthesis.validation import compare_suites, to_task, validate

COMMAND = "python -m pytest -q -rA --tb=no -p no:cacheprovider --color=no"
SOURCE = "def double(n):\n    unused = 7\n    return n * 2\n\n\ndef grow(n):\n    while n < 10:\n        n += 1\n    return n\n"
TESTS = (
    "from code_ import double, grow\n\n\ndef test_double():\n    assert double(4) == 8\n\n\n"
    "def test_grow():\n    assert grow(3) == 10\n"
)


def report(timed_out=False, **statuses):
    return SuiteReport({name: TestResult(status) for name, status in statuses.items()}, 0, 0.1, timed_out)


@pytest.mark.parametrize(
    ("after", "reason", "fail_to_pass", "pass_to_pass"),
    [
        (report(a="failed", b="passed", c="failed"), "kept", ["a"], ["b"]),
        (report(a="skipped", b="xfailed"), "kept", ["a"], ["b"]),
        (report(a="xfailed", b="passed", c="passed"), "kept", ["a"], ["b"]),
        (report(a="failed", b="xpassed"), "no test passes", ["a"], []),
        (report(b="passed"), "kept", ["a"], ["b"]),
        (report(a="passed", b="passed", c="passed"), "no test fails", [], ["a", "b"]),
        (report(), "no test passes", ["a"], []),
        (report(timed_out=True), "too slow", ["a"], []),
    ],
)
def test_a_bug_is_kept_only_if_tests_detect_it(after, reason, fail_to_pass, pass_to_pass):
    verdict = compare_suites(report(a="passed", b="xfailed", c="failed", d="skipped"), after)
    assert (verdict.reason, verdict.fail_to_pass, verdict.pass_to_pass) == (reason, fail_to_pass, pass_to_pass)


def test_a_task_records_statuses_on_the_clean_tree(tmp_path):
    repository = write_repository("r", to_tree({"code_.py": SOURCE}), tmp_path)
    candidate = write_candidate(repository, Bug((("code_.py", find_mutations(SOURCE)[0]),)))
    before = report(a="passed", b="xfailed", c="skipped", d="passed")
    verdict = compare_suites(before, report(a="failed", b="xfailed", c="skipped", d="passed"))
    task = to_task(candidate, verdict, before, Suite(COMMAND, ()), issue="", created_by="", meta={})
    assert task.meta["clean_statuses"] == {"b": "xfailed"}
    assert judging.judge(task, report(a="passed", b="xfailed", d="passed")).resolved
    assert not judging.judge(task, report(a="xfailed", b="xfailed", d="passed")).resolved


@pytest.mark.slow
async def test_bugs_are_tried_in_order_and_rejected_layers_are_removed(provider, tmp_path):
    repository = write_repository("r", to_tree({"code_.py": SOURCE, "test_code.py": TESTS}), tmp_path)
    suite = Suite(COMMAND, ("test_code.py",), timeout_s=4)
    before = await run_suite(provider, [repository.layer], suite)
    assert before.passing == ["test_code.py::test_double", "test_code.py::test_grow"]
    mutations = {mutation.hash8: mutation for mutation in find_mutations(SOURCE)}
    wanted = [
        next(m for m in mutations.values() if (m.name, m.line) == place)
        for place in [("integer", 2), ("remove_assignment", 8), ("arithmetic", 3), ("comparison", 7), ("integer", 3)]
    ]
    candidates = (write_candidate(repository, Bug((("code_.py", mutation),))) for mutation in wanted)
    seen = []
    kept, reasons = await validate(
        provider, suite, before, candidates, num_wanted=2, on_verdict=lambda verdict: seen.append(verdict.reason)
    )
    assert seen == ["no test fails", "too slow", "kept", "kept"]
    assert [candidate.bug.mutations[0][1] for candidate, _ in kept] == wanted[2:4]
    assert reasons == {"no test fails": 1, "too slow": 1, "kept": 2}
    layers = {path.name for path in (tmp_path / "layers").iterdir()}
    assert layers == {"r", *(candidate.instance_id for candidate, _ in kept)}
