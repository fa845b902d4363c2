"""One task from the scan to the record, in real sandboxes."""

from dataclasses import replace

import pytest

from support.repositories.shop_texts import BASE, FIXED, HIDDEN, VISIBLE
from turnsmith.cli.qualifying import find_reason
from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError
from turnsmith.grading.cases import Case
from turnsmith.qualification.copies import SystemFiles
from turnsmith.qualification.examination import Criteria, examine, is_settled, look_into_tests
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


async def test_a_sound_task_is_qualified_and_the_record_says_on_what_grounds(case):
    record = await examine(case, SYSTEM, CRITERIA)
    assert (record.verdict, record.detail, record.repeats, record.leaks) == (Verdict.QUALIFIED, "", 2, [])
    assert {test: (passes.base, passes.gold) for test, passes in record.passes.items()} == {
        "test_shop.py::test_bounded_sum_of_many_prices": (0, 2),
        "test_shop.py::test_small": (2, 2),
    }
    assert record.gold_s > 0 and record.audit == Ability()
    assert record.isolation == case.provider.isolation


async def test_a_fresh_run_is_judged_by_the_rules_of_the_grader(case):
    """Rules of the data set, and an id that it has cut at a space."""
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


async def test_a_leak_settles_it_before_anything_is_run(case):
    (case.tree.layers[0] / "shop.py.orig").write_text(FIXED)
    record = await examine(case, SYSTEM, CRITERIA)
    assert (record.verdict, record.repeats) == (Verdict.LEAKS, 0)
    assert record.detail.startswith("gold patch in shop.py.orig: ")


async def test_a_task_whose_command_keeps_the_plugin_away_is_refused_for_good(case):
    record = await examine(but(case, test_command="env -u PYTEST_PLUGINS python -m pytest -q"), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.UNGRADABLE and is_settled(record, CRITERIA)
    assert "load" in record.detail


@pytest.mark.parametrize("is_repaired", [True, False])
async def test_a_task_whose_tree_breaks_the_plugin_is_refused_for_good(case, is_repaired):
    crash = "from _pytest.terminal import TerminalReporter\n\nTerminalReporter.write_line = None\n"
    (case.tree.layers[0] / "shop.py").write_text(crash + BASE)
    patch = make_patch("shop.py", crash + BASE, FIXED if is_repaired else crash + FIXED)
    record = await examine(but(case, patch=patch), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.UNGRADABLE and is_settled(record, CRITERIA)
    assert "crashed" in record.detail


async def test_a_gold_patch_that_mends_nothing_fails(case):
    patch = make_patch("shop.py", BASE, BASE.replace("The sum", "A sum"))
    record = await examine(but(case, patch=patch), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.GOLD_FAILS
    assert record.detail.startswith("test_shop.py::test_bounded_sum_of_many_prices ")


async def test_a_test_that_passes_anyway_is_found_out(case):
    record = await examine(but(case, FAIL_TO_PASS=["test_shop.py::test_small"], PASS_TO_PASS=[]), SYSTEM, CRITERIA)
    assert (record.verdict, record.passes["test_shop.py::test_small"].base) == (Verdict.NO_OP_PASSES, 2)


async def test_a_test_that_tells_warm_from_cold_goes_into_quarantine(case):
    """Such a test is no fair judge: which way it ends is a matter of how it was started."""
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
async def test_a_task_that_cannot_be_set_up_says_why(case, change, words):
    record = await examine(but(case, **change), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.BROKEN_SETUP and words in record.detail


class Gitless:
    """A provider of sandboxes where git does not answer, after so many that are sound."""

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


async def test_a_git_that_does_not_answer_is_never_held_against_the_task(case):
    record = await examine(replace(case, provider=Gitless(case.provider)), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.INFRASTRUCTURE and "git" in record.detail


async def test_a_fault_of_the_audit_is_reported_and_leaves_the_ability_open(case):
    """The first sandbox is that of the search for test data."""
    columns = await look_into_tests(replace(case, provider=Gitless(case.provider, num_sound=1)), None, 1.0)
    record = Qualification(instance_id="shop-1", key="", verdict=Verdict.QUALIFIED, repeats=2, **columns)
    assert record.audit is None and "git" in record.audit_fault
    assert find_reason(record).endswith(record.audit_fault) and not is_settled(record, CRITERIA)


async def test_test_files_that_cannot_be_read_are_a_lasting_reason(case):
    (case.tree.layers[0] / "test_shop.py").write_bytes(f"# coding: latin-1\n# \xe9\n{VISIBLE}".encode("latin-1"))
    columns = await look_into_tests(but(case, test_patch=""), None, 1.0)
    assert "parsed" in columns["audit"].reason and "audit_fault" not in columns


async def test_a_task_whose_tests_take_too_long_is_too_slow(case):
    patch = make_patch("shop.py", BASE, "import time\n\ntime.sleep(60)\n" + FIXED)
    record = await examine(replace(but(case, patch=patch), tests_timeout_s=2.0), SYSTEM, CRITERIA)
    assert (record.verdict, record.passes["test_shop.py::test_small"].gold) == (Verdict.TOO_SLOW, 0)


async def test_a_task_that_asks_for_names_is_told_apart_though_its_file_cannot_be_collected(case):
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
async def test_so_is_one_whose_conftest_or_unittest_wants_a_name(case, file, text, columns):
    fixed = FIXED + "\n\ndef refund(price):\n    return -price\n"
    tests = make_patch("test_shop.py", VISIBLE, VISIBLE + HIDDEN)
    tests += make_patch(file, "", text).replace(f"--- a/{file}\n", "new file mode 100644\n--- /dev/null\n")
    task = {"patch": make_patch("shop.py", BASE, fixed), "test_patch": tests, **columns}
    record = await examine(but(case, **task), SYSTEM, CRITERIA)
    assert (record.verdict, record.missing_names) == (Verdict.NAMES_MISSING, ["refund"]), record.detail


class Broken:
    """A provider of a machine that fails so many times, then works."""

    isolation = "none"

    def __init__(self, num_faults, provider=None):
        self.num_faults = num_faults
        self.provider = provider

    async def start(self, spec):
        if self.num_faults > 0 or self.provider is None:
            self.num_faults -= 1
            raise SandboxError("no more descriptors")
        return await self.provider.start(spec)


async def test_a_fault_of_the_machine_is_tried_again_and_never_held_against_the_task(case):
    record = await examine(replace(case, provider=Broken(2, case.provider)), SYSTEM, CRITERIA)
    assert record.verdict is Verdict.QUALIFIED
    record = await examine(replace(case, provider=Broken(99)), SYSTEM, CRITERIA)
    assert (record.verdict, record.detail) == (Verdict.INFRASTRUCTURE, "no more descriptors")
    assert not is_settled(record, CRITERIA)


async def test_what_is_settled_is_not_asked_again(case):
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


def test_the_key_is_of_the_row_of_what_the_layers_hold_and_of_what_runs_the_tests(origin, tmp_path):
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
