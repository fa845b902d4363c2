"""Examination of one task from the search to the record, in real sandboxes."""

from dataclasses import replace

import pytest

from support.repositories.shop_texts import BASE, FIXED, HIDDEN, VISIBLE
from turnsmith.cli.qualifying import find_reason
from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError
from turnsmith.grading.cases import Case
from turnsmith.qualification.copies import SystemFiles
from turnsmith.qualification.examination import Criteria, examine, inspect_tests, is_settled
from turnsmith.qualification.record import Leak, LeakKind, Qualification, Verdict, digest_tree, make_key
from turnsmith.synthesis.repositories import make_patch
from turnsmith.types import Ability, TaskTree

pytestmark = pytest.mark.slow
CRITERIA = Criteria(repeats=2, tests_timeout_s=60.0)
SYSTEM = SystemFiles()
KNOWS_ITS_PARENT = """

def test_where_it_runs():
    import os

    with open(f"/proc/{os.getppid()}/comm") as parent:
        assert parent.read() == "bash\\n"
"""


@pytest.fixture
def case(origin, provider):
    return Case(TaskTree(origin.task, (origin.folder,)), provider, CRITERIA.tests_timeout_s)


def but(case, **changes):
    return case.with_task(case.task.model_copy(update=changes))


async def test_sound_task_is_qualified_with_a_full_record(case):
    record = await examine(case, SYSTEM, CRITERIA)
    assert (record.verdict, record.detail, record.repeats, record.leaks) == (Verdict.QUALIFIED, "", 2, [])
    assert {test: (passes.base, passes.gold) for test, passes in record.passes.items()} == {
        "test_shop.py::test_bounded_sum_of_many_prices": (0, 2),
        "test_shop.py::test_small": (2, 2),
    }
    assert record.gold_s > 0 and record.audit == Ability()
    assert record.isolation == case.provider.isolation


async def test_fresh_run_is_judged_by_the_status_rules(case):
    """The task has the rules of a data set and an id that is cut at a blank."""
    tests = (
        "\n\nimport pytest\n\n\n"
        "def test_not_here():\n    pytest.skip('not on this machine')\n\n\n"
        '@pytest.mark.parametrize("words", ["two words"])\n'
        "def test_words(words):\n    assert total([2], len(words)) == 2\n"
    )
    lenient = but(
        case,
        status_rules="swe-bench",
        test_patch=make_patch("test_shop.py", VISIBLE, VISIBLE + HIDDEN + tests),
        PASS_TO_PASS=["test_shop.py::test_small", "test_shop.py::test_not_here", "test_shop.py::test_words[two"],
    )
    record = await examine(lenient, SYSTEM, CRITERIA)
    assert (record.verdict, record.detail, record.quarantined) == (Verdict.QUALIFIED, "", [])
    assert all(passes.gold == 2 for passes in record.passes.values())


async def test_leak_ends_the_examination_before_any_run(case):
    (case.tree.layers[0] / "shop.py.orig").write_text(FIXED)
    record = await examine(case, SYSTEM, CRITERIA)
    assert (record.verdict, record.repeats) == (Verdict.LEAKS, 0)
    assert record.detail.startswith("gold patch in shop.py.orig: ")


async def test_command_that_prevents_the_plugin_is_ungradable(case):
    record = await examine(but(case, test_command="env -u PYTEST_PLUGINS python -m pytest -q"), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.UNGRADABLE and is_settled(record, CRITERIA)
    assert "load" in record.detail


@pytest.mark.parametrize("is_repaired", [True, False])
async def test_tree_that_breaks_the_plugin_is_ungradable(case, is_repaired):
    crash = "from _pytest.terminal import TerminalReporter\n\nTerminalReporter.write_line = None\n"
    (case.tree.layers[0] / "shop.py").write_text(crash + BASE)
    patch = make_patch("shop.py", crash + BASE, FIXED if is_repaired else crash + FIXED)
    record = await examine(but(case, patch=patch), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.UNGRADABLE and is_settled(record, CRITERIA)
    assert "crashed" in record.detail


async def test_useless_gold_patch_fails(case):
    patch = make_patch("shop.py", BASE, BASE.replace("The sum", "A sum"))
    record = await examine(but(case, patch=patch), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.GOLD_FAILS
    assert record.detail.startswith("test_shop.py::test_bounded_sum_of_many_prices ")


async def test_fail_to_pass_test_that_passes_untouched_is_detected(case):
    record = await examine(but(case, FAIL_TO_PASS=["test_shop.py::test_small"], PASS_TO_PASS=[]), SYSTEM, CRITERIA)
    assert (record.verdict, record.passes["test_shop.py::test_small"].base) == (Verdict.NO_OP_PASSES, 2)


async def test_test_that_depends_on_a_warm_start_is_quarantined(case):
    """The result of such a test depends on how it was started."""
    if case.provider.isolation == "none":
        pytest.skip("bare sandboxes run all tests cold")
    hidden = case.task.test_patch
    tests = make_patch("test_parent.py", "", KNOWS_ITS_PARENT.lstrip())
    shaky = but(
        case,
        test_patch=hidden + tests.replace("--- a/test_parent.py", "new file mode 100644\n--- /dev/null"),
        PASS_TO_PASS=["test_shop.py::test_small", "test_parent.py::test_where_it_runs"],
    )
    record = await examine(shaky, SYSTEM, CRITERIA)
    assert record.verdict is Verdict.QUALIFIED
    assert record.quarantined == ["test_parent.py::test_where_it_runs"]
    assert record.passes["test_parent.py::test_where_it_runs"].gold == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"setup": ["exit 3"]}, "set-up command 'exit 3' of shop-1 ended with 3"),
        (
            {"patch": make_patch("shop.py", "no such line\n", "one\ntwo\n")},
            "the gold patch cannot be used: does not apply",
        ),
        (
            {"test_patch": make_patch("test_shop.py", "no such line\n", "one\ntwo\n")},
            "the test patch of shop-1 does not apply",
        ),
        (
            {"test_patch": "diff --git a/../x b/../x\n"},
            "the test patch of shop-1 cannot be used: path outside the tree",
        ),
        ({"patch": "diff --git a/../x b/../x\n"}, "the gold patch cannot be used: path outside the tree"),
    ],
)
async def test_failed_setup_gives_its_reason(case, change, words):
    record = await examine(but(case, **change), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.BROKEN_SETUP and words in record.detail


class Gitless:
    """Provider of sandboxes without git, after `num_sound` sandboxes with it."""

    isolation = "none"

    def __init__(self, provider, num_sound=0):
        self.provider, self.num_sound = provider, num_sound

    async def start(self, spec):
        sandbox = await self.provider.start(spec)
        self.num_sound -= 1
        if self.num_sound >= 0:
            return sandbox
        await sandbox.exec("mkdir bin; printf '#!/bin/sh\nexit 127\n' > bin/git; chmod +x bin/git", timeout_s=10)
        plain = sandbox.exec
        sandbox.exec = lambda command, **options: plain(f"PATH=$PWD/bin:$PATH; {command}", **options)
        return sandbox


async def test_missing_git_is_an_infrastructure_fault(case):
    record = await examine(replace(case, provider=Gitless(case.provider)), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.INFRASTRUCTURE and "git" in record.detail


async def test_fault_during_the_audit_leaves_the_ability_unknown(case):
    """The first sandbox runs the search for test data."""
    columns = await inspect_tests(replace(case, provider=Gitless(case.provider, num_sound=1)), None, 1.0)
    record = Qualification(instance_id="shop-1", key="", verdict=Verdict.QUALIFIED, repeats=2, **columns)
    assert record.audit is None and "git" in record.audit_fault
    assert find_reason(record).endswith(record.audit_fault) and not is_settled(record, CRITERIA)


async def test_unreadable_test_files_settle_the_ability(case):
    (case.tree.layers[0] / "test_shop.py").write_bytes(f"# coding: latin-1\n# \xe9\n{VISIBLE}".encode("latin-1"))
    columns = await inspect_tests(but(case, test_patch=""), None, 1.0)
    assert "parsed" in columns["audit"].reason and "audit_fault" not in columns


async def test_task_with_slow_tests_is_too_slow(case):
    patch = make_patch("shop.py", BASE, "import time\n\ntime.sleep(60)\n" + FIXED)
    record = await examine(replace(but(case, patch=patch), tests_timeout_s=2.0), SYSTEM, CRITERIA)
    assert (record.verdict, record.passes["test_shop.py::test_small"].gold) == (Verdict.TOO_SLOW, 0)


async def test_missing_names_are_found_in_a_file_that_cannot_be_collected(case):
    fixed = BASE + "\n\ndef refund(price):\n    return -price\n"
    tests = (
        VISIBLE.replace("import total", "import refund, total") + "\n\ndef test_refund():\n    assert refund(1) == -1\n"
    )
    task = {
        "patch": make_patch("shop.py", BASE, fixed),
        "test_patch": make_patch("test_shop.py", VISIBLE, tests),
        "FAIL_TO_PASS": ["test_shop.py::test_refund"],
    }
    record = await examine(but(case, **task), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.NAMES_MISSING
    assert record.missing_names == ["refund"]
    kept = await examine(but(case, **task), SYSTEM, replace(CRITERIA, needs_names=False))
    assert kept.verdict is Verdict.QUALIFIED


BY_UNITTEST = """import unittest

import shop


class T(unittest.TestCase):
    def test_refund(self):
        self.assertEqual(shop.refund(1), -1)
"""


@pytest.mark.parametrize(
    ("file", "text", "columns"),
    [
        ("conftest.py", "from shop import refund\n", {}),
        (
            "test_refund.py",
            BY_UNITTEST,
            {
                "test_command": "python -m unittest -v",
                "test_files": ["test_refund"],
                "log_parser": "unittest",
                "FAIL_TO_PASS": ["test_refund (test_refund.T)"],
                "PASS_TO_PASS": [],
            },
        ),
    ],
)
async def test_missing_names_are_found_in_conftest_and_unittest(case, file, text, columns):
    fixed = FIXED + "\n\ndef refund(price):\n    return -price\n"
    tests = make_patch("test_shop.py", VISIBLE, VISIBLE + HIDDEN)
    tests += make_patch(file, "", text).replace(f"--- a/{file}\n", "new file mode 100644\n--- /dev/null\n")
    task = {"patch": make_patch("shop.py", BASE, fixed), "test_patch": tests, **columns}
    record = await examine(but(case, **task), SYSTEM, CRITERIA)
    assert (record.verdict, record.missing_names) == (Verdict.NAMES_MISSING, ["refund"]), record.detail


class Broken:
    """Provider that fails a number of times, then works."""

    isolation = "none"

    def __init__(self, num_faults, provider=None):
        self.num_faults = num_faults
        self.provider = provider

    async def start(self, spec):
        if self.num_faults > 0 or self.provider is None:
            self.num_faults -= 1
            raise SandboxError("no more descriptors")
        return await self.provider.start(spec)


async def test_infrastructure_fault_is_retried(case):
    record = await examine(replace(case, provider=Broken(2, case.provider)), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.QUALIFIED
    record = await examine(replace(case, provider=Broken(99)), SYSTEM, CRITERIA)
    assert (record.verdict, record.detail) == (Verdict.INFRASTRUCTURE, "no more descriptors")
    assert not is_settled(record, CRITERIA)


async def test_settled_records_are_kept(case):
    record = await examine(case, SYSTEM, CRITERIA)
    assert is_settled(record, CRITERIA)
    assert not is_settled(record, replace(CRITERIA, repeats=3))
    wants = record.model_copy(update={"verdict": Verdict.NAMES_MISSING, "missing_names": ["refund"]})
    assert is_settled(wants, CRITERIA) and not is_settled(wants, replace(CRITERIA, needs_names=False))
    leak = Leak(kind=LeakKind.COPY, where="shop.py.orig", what="")
    leaks = record.model_copy(update={"verdict": Verdict.LEAKS, "leaks": [leak]})
    assert is_settled(leaks, CRITERIA)
    outside = leaks.model_copy(update={"leaks": [leak.model_copy(update={"where": "/usr/lib/shop.py"})]})
    assert not is_settled(outside, CRITERIA)


def test_key_depends_on_row_layers_and_sandbox(origin, tmp_path):
    plain = SandboxConfig()
    key = make_key(TaskTree(origin.task, (origin.folder,)), plain)
    assert key == make_key(TaskTree(origin.task, (origin.folder,)), plain)
    assert key != make_key(TaskTree(origin.task.model_copy(update={"setup": ["true"]}), (origin.folder,)), plain)
    assert key == make_key(TaskTree(origin.task, (origin.folder,)), SandboxConfig(memory_mb=64))
    for other in (
        SandboxConfig(test_plugins=["pytest-timeout"]),
        SandboxConfig(kind="podman", image="debian"),
        SandboxConfig(hidden=[*plain.hidden, "/opt/copy"]),
        SandboxConfig(kind="subprocess"),
    ):
        assert key != make_key(TaskTree(origin.task, (origin.folder,)), other)
    other = tmp_path / "other"
    other.mkdir()
    keys = {key}
    for change in (
        lambda: (other / "a").write_text("1"),
        lambda: (other / "a").chmod(0o755),
        lambda: (other / "b").mkdir(),
    ):
        change()
        digest_tree.cache_clear()
        keys.add(make_key(TaskTree(origin.task, (origin.folder, other)), plain))
    assert len(keys) == 4
