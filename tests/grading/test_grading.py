import asyncio
import py_compile
import re

import pytest

from support.grading.calc_task import (
    BUGGY,
    GOLD,
    CountingProvider,
    forge_reports,
    make_task,
    replace_body,
    write_layers,
)
from turnsmith.grading import cases
from turnsmith.grading.grading import Grader
from turnsmith.grading.judging import judge
from turnsmith.grading.log_parsers.base import TestResult
from turnsmith.grading.seal import SealedReport
from turnsmith.grading.testing import SuiteReport
from turnsmith.synthesis.repositories import make_patch
from turnsmith.types import OUTCOMES, Outcome, TaskTree

TESTS = "from calc import add\n\n\ndef test_add():\n    assert add(2, 1) == 3\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"


def new_file(path, *lines):
    body = "".join(f"+{line}\n" for line in lines)
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{body}"


@pytest.fixture
def tree(task, layers):
    return TaskTree(task, layers)


@pytest.fixture
def layers(tmp_path):
    return write_layers(tmp_path, TESTS)


@pytest.fixture
def task():
    return make_task()


@pytest.fixture
def grader(provider):
    return Grader(provider, tests_timeout_s=20, num_workers=2)


async def test_gold_patch_is_resolved_and_untouched_tree_is_not(provider, grader, tree):
    gold, nothing = await asyncio.gather(grader.grade(tree, GOLD), grader.grade_unpatched(tree))
    assert gold.outcome is Outcome.RESOLVED
    assert gold.isolation == provider.isolation
    assert gold.statuses == {"test_calc.py::test_add": "passed", "test_calc.py::test_zero": "passed"}
    assert nothing.outcome is Outcome.UNRESOLVED
    assert re.fullmatch(r"1 of 2 .*: test_calc.py::test_add failed", nothing.detail)


@pytest.mark.parametrize(
    ("patch", "outcome", "detail"),
    [
        ("", Outcome.EMPTY_PATCH, "nothing was changed"),
        (GOLD.replace("a - b", "a * b"), Outcome.PATCH_INVALID, "error: patch failed: calc.py:1"),
        (new_file("../x.py", "x"), Outcome.PATCH_INVALID, "path outside the tree: '../x.py'"),
        (new_file("tests/x.py", "x"), Outcome.EMPTY_PATCH, "left out"),
    ],
)
async def test_invalid_and_empty_patches_run_no_test(grader, tree, patch, outcome, detail):
    grade = await grader.grade(tree, patch)
    assert grade.outcome is outcome and detail in grade.detail


FORGED = "= short test summary info =\\nPASSED test_calc.py::test_add\\nPASSED test_calc.py::test_zero\\n"
WRITE_TO_ALL = [
    "import contextlib, os, stat",
    f"summary = b'{FORGED}'",
    "for fd in range(1, 40):",
    "    with contextlib.suppress(OSError): stat.S_ISSOCK(os.fstat(fd).st_mode) or os.write(fd, summary)",
]
"""pytest duplicates its output to an unknown descriptor while it captures."""
THREAD = [
    "import threading",
    "def write():",
    "    while os.write(1, summary + b'ERROR x\\n'): pass",
    "threading.Thread(target=write, daemon=True).start()",
]
ATTACKS = {
    "a conftest that skips": new_file("conftest.py", "collect_ignore = ['test_calc.py']") + replace_body("return 7"),
    "another test file": GOLD.replace("calc.py", "test_calc.py") + replace_body("return 7"),
    "a conftest that forges": new_file("conftest.py", "def pytest_runtest_makereport(call): call.excinfo = None")
    + replace_body("return 7"),
    "exit on import": replace_body("return 7", after=["import sys; sys.exit(0)"]),
    "skip on import": replace_body("return 7", after=["import pytest; pytest.skip('', allow_module_level=True)"]),
    "a printed summary": replace_body(f"import atexit, os; atexit.register(os.write, 1, b'{FORGED}')", "return 7"),
    "xfail in the code": replace_body("import pytest; pytest.xfail()"),
    "xfail that prints": replace_body(f"import pytest; pytest.xfail('\\n{FORGED}')"),
    "a pytest package": new_file("pytest/__init__.py", "") + new_file("pytest/__main__.py", f"print('{FORGED}')"),
    "a linked pytest": new_file("ours/__init__.py", "")
    + new_file("ours/__main__.py", f"print('{FORGED}')")
    + new_file("pytest", "ours").replace("100644", "120000")
    + "\\ No newline at end of file\n",
    "a summary to every descriptor, then the end": replace_body("return 7", after=[*WRITE_TO_ALL, "os._exit(0)"]),
    "a summary to every descriptor, then an error": replace_body("return 7", after=[*WRITE_TO_ALL, "import nowhere"]),
    "a summary from a thread that goes on": replace_body(
        "return 7", after=[*WRITE_TO_ALL[:2], *THREAD, "import pytest; pytest.exit('', 1)"]
    ),
    "a broken import": replace_body("return 7", after=["import nowhere"]),
}


FORGE = [
    "import os, sys",
    "mark = sys.stdin.readline().strip()",
    "lines = ['= short test summary info =', *(f'PASSED test_calc.py::test_{name}' for name in ('add', 'zero'))]",
    "print('', *(f'{mark} {line}' for line in lines), mark, sep='\\n', flush=True)",
    "os._exit(0)",
]
"""Read the secret of the seal before pytest does, then forge a sealed report."""
RUN_BEFORE_PYTEST = {
    "argparse.py": "argparse.py",
    "iniconfig": "iniconfig/__init__.py",
    "org": "org/__init__.py",
    "org without __init__": "org/python/core.py",
    "pdb.py": "pdb.py",
    "pluggy.py": "pluggy.py",
    "pluggy": "pluggy/__init__.py",
    "pygments": "pygments/__init__.py",
    "pytest.py": "pytest.py",
    "pytest": "pytest/__init__.py",
    "_pytest": "_pytest/__init__.py",
    "re": "re/__init__.py",
    "conftest.py": "conftest.py",
}
ATTACKS |= {
    f"{name} that forges": new_file(path, *FORGE) + replace_body("return 7") for name, path in RUN_BEFORE_PYTEST.items()
}
ATTACKS |= {
    "an installed plugin that forges": new_file("forge.py", *FORGE)
    + new_file("forge-1.dist-info/METADATA", "Metadata-Version: 2.1", "Name: forge", "Version: 1")
    + new_file("forge-1.dist-info/entry_points.txt", "[pytest11]", "forge = forge")
    + replace_body("return 7"),
    "settings that load a plugin that forges": new_file("forge.py", *FORGE)
    + new_file("pytest.ini", "[pytest]", "addopts = -p forge")
    + replace_body("return 7"),
}


TAMPERING = {
    "all reports": (forge_reports("True"), "sentinel"),
    "every descriptor": (
        replace_body(
            "return a + b",
            after=[
                "import contextlib, os, stat",
                "for fd in range(3, 4000):",
                "    with contextlib.suppress(OSError): stat.S_ISFIFO(os.fstat(fd).st_mode) and os.write(fd, b'{}\\n')",
            ],
        ),
        "forged-report",
    ),
}


@pytest.mark.parametrize("name", TAMPERING)
async def test_falsified_reports_are_detected_as_tampering(grader, tree, name):
    patch, flag = TAMPERING[name]
    grade = await grader.grade(tree, patch)
    assert (grade.outcome, grade.flags[0]) == (Outcome.TAMPERED, flag), grade


async def test_bytecode_in_the_tree_is_not_tested(grader, layers, tree):
    """Unchecked bytecode would be imported instead of the source."""
    py_compile.compile(str(layers[0] / "calc.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert list(layers[0].glob("__pycache__/*.pyc"))
    assert (await grader.grade(tree, GOLD)).resolved


@pytest.mark.parametrize("reported, flags", [("passed", []), ("failed", ["channels"]), ("skipped", ["channels"])])
def test_report_that_differs_from_the_log_is_flagged(task, reported, flags):
    statuses = dict.fromkeys([*task.FAIL_TO_PASS, *task.PASS_TO_PASS], "passed")
    sealed = SealedReport(statuses | {task.PASS_TO_PASS[0]: reported}, True, False, True)
    results = {test: TestResult(status) for test, status in statuses.items()}
    assert judge(task, SuiteReport(results, 0, 0.1, is_finished=True, sealed=sealed)).flags == flags


@pytest.mark.parametrize("attack", ATTACKS)
async def test_attacks_are_not_resolved(grader, tree, attack):
    grade = await grader.grade(tree, ATTACKS[attack])
    assert grade.outcome in (Outcome.UNRESOLVED, Outcome.TAMPERED), grade


ODD_TESTS = TESTS.replace("add(2, 1) == 3", "add(2, 1) == RESULT").replace(
    "import add", "import add\nfrom expected import RESULT"
)
ODD_IDS = {"FAIL_TO_PASS": ["checks.py::test_add"], "PASS_TO_PASS": ["checks.py::test_zero"]}


async def test_patch_cannot_change_a_test_file_with_an_unusual_name(grader, task, layers):
    """Only the ids of the expected tests show that the file is a test."""
    (layers[0] / "checks.py").write_text(TESTS)
    odd = task.model_copy(update=ODD_IDS)
    head = "diff --git a/checks.py b/checks.py\n--- a/checks.py\n+++ b/checks.py\n"
    attack = f"{head}@@ -5 +5 @@\n-    assert add(2, 1) == 3\n+    assert add(2, 1) == 1\n"
    assert (await grader.grade(TaskTree(odd, layers), GOLD)).resolved
    assert (await grader.grade(TaskTree(odd, layers), attack)).outcome is Outcome.EMPTY_PATCH


async def test_patch_cannot_add_a_file_of_the_test_patch(grader, task, layers):
    """Only the test patch shows that the file belongs to the tests."""
    (layers[0] / "checks.py").write_text(ODD_TESTS)
    odd = task.model_copy(update={**ODD_IDS, "test_patch": new_file("expected.py", "RESULT = 3")})
    intruder = new_file("expected.py", "RESULT = 1")
    assert (await grader.grade(TaskTree(odd, layers), GOLD + intruder)).resolved
    assert (await grader.grade(TaskTree(odd, layers), intruder)).outcome is Outcome.EMPTY_PATCH


async def test_test_infrastructure_is_left_out_and_counted(grader, tree):
    grade = await grader.grade(tree, GOLD + new_file("conftest.py", "raise SystemExit"))
    assert grade.resolved
    assert grade.detail.startswith("1 file")


async def test_new_module_that_shadows_the_standard_library_is_left_out(grader, tree):
    grade = await grader.grade(tree, GOLD + new_file("src/json.py", "x") + new_file("random.py", "raise OSError"))
    assert grade.resolved
    assert grade.detail.startswith("2 files")


async def test_endless_patch_times_out(provider, tree):
    grader = Grader(provider, tests_timeout_s=2, num_workers=1)
    grade = await grader.grade(tree, replace_body("while True: pass"))
    assert grade.outcome is Outcome.TESTS_TIMED_OUT and "their limit of 2 s" in grade.detail


async def test_endless_patch_times_out_after_a_multiple_of_the_gold_time(provider, task, layers, monkeypatch):
    monkeypatch.setattr(cases, "MIN_LIMIT_S", 1.0)
    grader = Grader(provider, tests_timeout_s=250, num_workers=1)
    timed = task.model_copy(update={"meta": {cases.GOLD_S: 0.2}})
    grade = await grader.grade(TaskTree(timed, layers), replace_body("while True: pass"))
    assert grade.outcome is Outcome.TESTS_TIMED_OUT and "their limit of 2 s" in grade.detail


@pytest.mark.parametrize(
    ("gold_s", "configured_s", "limit_s"),
    [
        (None, 1800, 1800), (0, 1800, 1800), (-1, 1800, 1800), ("fast", 1800, 1800), (float("nan"), 1800, 1800),
        (0.5, 1800, 30), (60, 1800, 600), (600, 1800, 1800), (float("inf"), 1800, 1800), (0.5, 20, 20),
    ],
)  # fmt: skip
def test_time_limit_is_a_multiple_of_the_gold_time_up_to_the_configured_limit(task, gold_s, configured_s, limit_s):
    assert cases.limit_tests(task.model_copy(update={"meta": {cases.GOLD_S: gold_s}}), configured_s) == limit_s


async def test_hidden_tests_replace_a_file_of_the_patch(grader, task, layers):
    (layers[0] / "test_calc.py").unlink()
    hidden = task.model_copy(update={"test_patch": new_file("test_calc.py", *TESTS.splitlines())})
    intruder = new_file("test_calc.py", "def test_add(): pass")
    assert (await grader.grade(TaskTree(hidden, layers), GOLD + intruder)).resolved


async def test_file_at_the_folder_of_hidden_tests_is_left_out(grader, task, layers):
    (layers[0] / "test_calc.py").unlink()
    hidden = task.model_copy(update={"test_patch": new_file("unseen/test_calc.py", *TESTS.splitlines())})
    renamed = hidden.model_copy(update={"FAIL_TO_PASS": ["unseen/test_calc.py::test_add"], "PASS_TO_PASS": []})
    assert (await grader.grade(TaskTree(renamed, layers), new_file("unseen", "x"))).outcome is Outcome.EMPTY_PATCH
    assert (await grader.grade(TaskTree(renamed, layers), GOLD + new_file("unseen", "x"))).resolved
    broken = task.model_copy(update={"test_patch": GOLD.replace("a - b", "a * b")})
    assert (await grader.grade_unpatched(TaskTree(broken, layers))).outcome is Outcome.GRADER_FAILED


async def test_identical_patches_share_one_run_until_forget(provider, task, layers, tree):
    counting = CountingProvider(provider)
    grader = Grader(counting, tests_timeout_s=20, num_workers=2)
    grades = await asyncio.gather(*(grader.grade(tree, GOLD) for _ in range(3)))
    assert [grade.shared for grade in grades] == [False, True, True]
    assert all(grade.resolved for grade in grades)
    await grader.grade(TaskTree(task.model_copy(update={"instance_id": "calc-2"}), layers), GOLD)
    assert counting.num_started == 2
    grader.forget()
    assert not (await grader.grade(tree, GOLD)).shared


async def test_failed_sandbox_is_a_grader_fault_and_is_not_cached(provider, tree):
    grader = Grader(CountingProvider(provider, faults=1), tests_timeout_s=20, num_workers=1)
    first = await grader.grade(tree, GOLD)
    assert (first.outcome, first.detail) == (Outcome.GRADER_FAILED, "no room")
    second = await grader.grade(tree, GOLD)
    assert second.resolved and not second.shared


SHY_COMMAND = "cd . && PYTHONPATH=.:$PYTHONPATH python -m pytest -q"
BROKEN_PLUGIN = {
    "a pytest that gets no plugin": ({}, "env -u PYTEST_PLUGINS python -m pytest -q", "did not load"),
    "a Python without what the plugin imports": (
        {"sitecustomize.py": "import sys\nsys.modules['_blake2'] = None\n"}, SHY_COMMAND, "did not load: .*_blake2",
    ),
    "a conftest that disturbs the plugin": (
        {"conftest.py": "def pytest_terminal_summary(terminalreporter): terminalreporter.stats = None\n"},
        "python -m pytest -q", "crashed: AttributeError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN_PLUGIN)
async def test_plugin_that_fails_on_the_clean_tree_is_a_grader_fault(grader, task, layers, case):
    files, command, detail = BROKEN_PLUGIN[case]
    for name, text in files.items():
        (layers[0] / name).write_text(text)
    task = task.model_copy(update={"test_command": command})
    tree = TaskTree(task, layers)
    for grade in [
        await grader.grade(tree, GOLD),
        await grader.grade_unpatched(tree),
    ]:
        assert grade.outcome is Outcome.GRADER_FAILED, grade
        assert re.search(detail, grade.detail)


async def test_patch_that_prevents_loading_the_plugin_is_unresolved(grader, task, layers):
    (layers[0] / "sitecustomize.py").write_text("import calc\n")
    patch = replace_body("return a + b", after=["import sys", "sys.modules['_blake2'] = None"])
    task = task.model_copy(update={"test_command": SHY_COMMAND})
    tree = TaskTree(task, layers)
    assert (await grader.grade(tree, GOLD)).resolved
    grade = await grader.grade(tree, patch)
    assert (grade.outcome, set(grade.statuses.values())) == (Outcome.UNRESOLVED, {"missing"}), grade


@pytest.mark.parametrize("cold", ["", "cd . && "])
async def test_patch_that_crashes_the_plugin_gets_a_verdict(grader, task, layers, cold):
    task = task.model_copy(update={"test_command": f"{cold}python -m pytest -q"})
    tree = TaskTree(task, layers)
    crash = ["from _pytest.terminal import TerminalReporter", "TerminalReporter.write_line = None"]
    grade = await grader.grade(tree, replace_body("return a + b", after=crash))
    assert grade.outcome not in (Outcome.RESOLVED, Outcome.GRADER_FAILED), grade


BREAKS_PLUGIN = "from _pytest.terminal import TerminalReporter\n\nTerminalReporter.write_line = None\n\n\n"


async def test_wrong_patch_is_unresolved_if_only_the_gold_patch_repairs_the_plugin(grader, task, layers):
    broken = BREAKS_PLUGIN + BUGGY
    (layers[0] / "calc.py").write_text(broken)
    gold = make_patch("calc.py", broken, BUGGY.replace("-", "+"))
    wrong = make_patch("calc.py", broken, broken.replace("-", "*"))
    task = task.model_copy(update={"patch": gold})
    tree = TaskTree(task, layers)
    assert (await grader.grade(tree, gold)).resolved
    assert (await grader.grade(tree, wrong)).outcome is Outcome.UNRESOLVED


async def test_plugin_fault_of_every_run_is_cached(provider, task, layers):
    grader = Grader(counting := CountingProvider(provider), tests_timeout_s=20, num_workers=1)
    task = task.model_copy(update={"test_command": "env -u PYTEST_PLUGINS python -m pytest -q"})
    tree = TaskTree(task, layers)
    first = await grader.grade(tree, GOLD)
    num_started = counting.num_started
    second = await grader.grade(tree, GOLD)
    assert first.outcome is second.outcome is Outcome.GRADER_FAILED and first.detail == second.detail
    assert counting.num_started == num_started > 0


async def test_failed_verdict_is_removed_once_for_all_waiting_calls(provider, tree):
    counting = CountingProvider(provider, faults=1)
    grader = Grader(counting, tests_timeout_s=20, num_workers=1)

    async def grade_twice():
        await grader.grade(tree, GOLD)
        return await grader.grade(tree, GOLD)

    grades = await asyncio.gather(*(grade_twice() for _ in range(4)))
    assert all(grade.resolved for grade in grades) and sum(grade.shared for grade in grades) == 3
    assert counting.num_started == 2


@pytest.mark.parametrize("end", ["kill -9 $$", "kill -SEGV $$", "exit 255", "echo fatal: out of memory; exit 128"])
async def test_crash_of_git_is_a_grader_fault(provider, grader, task, layers, tmp_path, end):
    if not provider.takes_environments:
        pytest.skip("these sandboxes show no environment of a task")
    git = tmp_path / "environment/bin/git"
    git.parent.mkdir(parents=True)
    git.write_text(f'#!/bin/sh\ncase "$1" in apply) {end};; esac\nexec /usr/bin/git "$@"\n')
    git.chmod(0o755)
    grade = await grader.grade(TaskTree(task.model_copy(update={"environment": str(git.parents[1])}), layers), GOLD)
    assert grade.outcome is Outcome.GRADER_FAILED and OUTCOMES[grade.outcome].retried
    assert "git " in grade.detail


async def test_patch_that_git_cannot_read_is_invalid(grader, tree):
    grade = await grader.grade(tree, "diff --git a/calc.py b/calc.py\n")
    assert grade.outcome is Outcome.PATCH_INVALID


async def test_warning_before_the_error_of_git_causes_no_retry(grader, tree):
    stale_mode = GOLD.replace("--- a/calc.py", "index 1111111..2222222 100755\n--- a/calc.py")
    grade = await grader.grade(tree, stale_mode + new_file("x", "1") + new_file("x/y", "1"))
    assert grade.outcome is Outcome.PATCH_INVALID


async def test_failed_setup_command_is_a_grader_fault(grader, task, layers):
    grade = await grader.grade(TaskTree(task.model_copy(update={"setup": ["exit 3"]}), layers), GOLD)
    assert grade.outcome is Outcome.GRADER_FAILED
    assert "'exit 3'" in grade.detail


def report(exit_code=0, **statuses):
    results = {f"test_calc.py::test_{name}": TestResult(status) for name, status in statuses.items()}
    return SuiteReport(results, exit_code, 0.1)


@pytest.mark.parametrize(
    ("suite", "resolved"),
    [
        (report(add="passed", zero="passed"), True),
        (report(add="xfailed", zero="passed"), False),
        (report(add="passed", zero="xpassed"), False),
        (report(add="passed", zero="passed", other="failed", exit_code=1), True),
        (report(add="passed", zero="passed", exit_code=1), False),
        (report(add="passed", zero="passed", other="failed", exit_code=0), False),
        (report(add="passed"), False),
        (report(add="skipped", zero="passed"), False),
        (report(add="passed", zero="skipped"), False),
        (report(exit_code=5), False),
    ],
)
def test_resolved_needs_all_expected_tests_and_a_matching_exit_code(task, suite, resolved):
    assert judge(task, suite).resolved is resolved


@pytest.mark.parametrize("status", ["skipped", "xfailed", "xpassed"])
def test_expected_test_may_keep_its_status_of_the_clean_tree(task, status):
    seen = task.model_copy(update={"meta": {"clean_statuses": {"test_calc.py::test_zero": status}}})
    assert judge(seen, report(add="passed", zero=status)).resolved
    assert judge(seen, report(add="passed", zero="passed")).resolved
    assert not judge(seen, report(add="passed", zero="failed", exit_code=1)).resolved
    assert not judge(seen, report(add=status, zero=status)).resolved


async def test_detail_of_a_grade_is_printable(grader, tree):
    grade = await grader.grade(tree, GOLD.replace("a - b", "\x1b[2J"))
    assert grade.detail.isprintable()
