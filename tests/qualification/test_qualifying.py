"""A task set is examined once, records are found by content, and training uses only qualified tasks."""

import re

import pytest

from support.episodes.silence import Silence
from support.repositories.shop_texts import BASE, FIXED, HIDDEN, VISIBLE
from turnsmith.audit.ability import describe_abilities
from turnsmith.config import RunConfig, SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.grading.logparse import PARSERS
from turnsmith.qualification.examination import Criteria
from turnsmith.qualification.record import VERSION, Qualification, Verdict, make_key
from turnsmith.qualification.task_set import (
    admit,
    find_record_file,
    keep_qualified,
    leave_out_unfit,
    qualify_task_set,
    read_qualifications,
)
from turnsmith.recipes.task_sets import list_mutants
from turnsmith.runs.folder import append_record, hold, read_records
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxSpec, started
from turnsmith.synthesis.repositories import make_patch, to_tree, write_bug_layer
from turnsmith.tasks.dataset import load_tasks, save_tasks
from turnsmith.tasks.task_set import read_task_set
from turnsmith.types import Ability, Edit, Mutant, Task

PLAIN = SandboxConfig()
CRITERIA = Criteria(repeats=2, tests_timeout_s=60.0)


class RecordedProgress(Silence):
    """Progress that stores its remarks."""

    def __init__(self):
        self.lines = []

    def log(self, text):
        self.lines.append(text)


class Counting:
    """Provider that counts the sandboxes it starts."""

    def __init__(self, provider):
        self.provider, self.isolation, self.num_started = provider, provider.isolation, 0

    async def start(self, spec):
        self.num_started += 1
        return await self.provider.start(spec)


@pytest.fixture
async def bare():
    """Sandboxes without isolation, which are not searched."""
    provider = make_provider(SandboxConfig(kind="subprocess"))
    yield Counting(provider)
    await provider.close()


@pytest.fixture
def tasks(tmp_path):
    """Make three tasks of one repository with quick tests."""
    folder, made = tmp_path / "tasks", []
    for name in ("first", "second", "third"):
        tree = to_tree({"shop.py": BASE, "test_shop.py": VISIBLE + HIDDEN})
        commit = write_bug_layer(folder / name, tree, {path: file.content for path, file in tree.items()})
        made.append(
            Task(
                instance_id=name, repo="shop", base_commit=commit, problem_statement="p", layers=[name],
                FAIL_TO_PASS=["test_shop.py::test_bounded_sum_of_many_prices"], PASS_TO_PASS=["test_shop.py::test_small"],
                patch=make_patch("shop.py", BASE, FIXED),
            )
        )  # fmt: skip
    save_tasks(folder, made)
    return read_task_set("train", folder, PARSERS)


def write_down(task_set, verdicts, quarantined=()):
    """Write one record for each task."""
    for tree, verdict in zip(task_set.list_trees(), verdicts, strict=False):
        record = Qualification(
            instance_id=tree.instance_id,
            key=make_key(tree, PLAIN),
            verdict=verdict,
            repeats=5,
            quarantined=list(quarantined),
        )
        append_record(find_record_file(task_set), record)


@pytest.mark.slow
async def test_recorded_tasks_are_not_examined_again_after_a_kill(tasks, bare):
    records = await qualify_task_set(tasks, CRITERIA, 1, bare, Silence())
    assert [record.instance_id for record in records] == [task.instance_id for task in tasks.tasks]
    assert {record.verdict for record in records} == {Verdict.QUALIFIED}
    assert {record.isolation for record in records} == {"none"}
    started = bare.num_started
    assert await qualify_task_set(tasks, CRITERIA, 1, bare, Silence()) == records
    assert bare.num_started == started
    file = find_record_file(tasks)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]) + lines[2][:50])
    again = await qualify_task_set(tasks, CRITERIA, 1, bare, Silence())
    assert again[:2] == records[:2] and again[2].verdict is Verdict.QUALIFIED
    assert 0 < bare.num_started - started < started
    assert len(list(read_records(file, Qualification))) == 3


async def test_second_process_is_refused(tasks, bare):
    with find_record_file(tasks).open("ab") as records:
        hold(records)
        with pytest.raises(UsageError, match=r"another process .*tasks"):
            await qualify_task_set(tasks, Criteria(), 1, bare, Silence())
    assert bare.num_started == 0


async def test_changed_task_has_no_record(tasks, tmp_path):
    write_down(tasks, [Verdict.QUALIFIED] * 3)
    assert len(read_qualifications(tasks, PLAIN)) == 3
    first, *rest = load_tasks(tmp_path / "tasks")
    save_tasks(tmp_path / "tasks", [first.model_copy(update={"problem_statement": "another"}), *rest])
    changed = read_task_set("train", tmp_path / "tasks", PARSERS)
    assert set(read_qualifications(changed, PLAIN)) == {task.instance_id for task in rest}
    with pytest.raises(UsageError, match=r"1 of 3 tasks .*tasks.jsonl .*turnsmith tasks qualify"):
        keep_qualified(changed, PLAIN, Silence())


async def test_records_of_another_version_are_ignored(tasks):
    write_down(tasks, [Verdict.QUALIFIED] * 3)
    file = find_record_file(tasks)
    old = (
        file.read_text()
        .replace(f'"version":{VERSION},', '"version":6,')
        .replace('"leaks":[]', '"leaks":"in its own words"')
    )
    file.write_text(old)
    assert read_qualifications(tasks, PLAIN) == {}


async def test_last_record_of_a_task_counts(tasks):
    write_down(tasks, [Verdict.INFRASTRUCTURE] * 3)
    write_down(tasks, [Verdict.QUALIFIED] * 3)
    assert keep_qualified(tasks, PLAIN, Silence()) == tasks


async def test_unfit_tasks_are_left_out_and_reported(tasks):
    write_down(tasks, [Verdict.FLAKY, Verdict.QUALIFIED, Verdict.LEAKS])
    recorded = RecordedProgress()
    assert keep_qualified(tasks, PLAIN, recorded).tasks == [tasks.tasks[1]]
    assert re.fullmatch(r"train: 2 of 3 tasks .*: 1 flaky, 1 leaks", *recorded.lines)
    assert leave_out_unfit(tasks, PLAIN, recorded).tasks == [tasks.tasks[1]]


async def test_run_without_qualified_tasks_is_refused(tasks):
    write_down(tasks, [Verdict.FLAKY] * 3)
    with pytest.raises(UsageError, match=r"none of .*3 tasks .*: 3 flaky"):
        keep_qualified(tasks, PLAIN, Silence())


async def test_quarantined_test_is_not_expected(tasks):
    shaky = tasks.tasks[0].PASS_TO_PASS[0]
    write_down(tasks, [Verdict.QUALIFIED], quarantined=[shaky])
    [first, *rest] = leave_out_unfit(tasks, PLAIN, Silence()).tasks
    assert shaky not in first.PASS_TO_PASS and first.meta["quarantined"] == [shaky]
    assert rest == tasks.tasks[1:]


async def test_evaluation_needs_no_record(tasks):
    assert leave_out_unfit(tasks, PLAIN, Silence()) == tasks


@pytest.mark.parametrize(
    ("config", "is_refused"),
    [
        ({"train_tasks": {"path": "x"}}, True),
        ({"train_tasks": {"path": "x"}, "require_qualified": False}, False),
        ({"train_tasks": {"practice_tasks": 3}}, False),
    ],
)
async def test_training_refuses_unqualified_files(tasks, bare, config, is_refused):
    run = RunConfig.model_validate(config)
    if is_refused:
        with pytest.raises(UsageError, match=r"3 of 3 tasks .*not qualified"):
            await admit(tasks, run, bare, Silence())
    else:
        assert await admit(tasks, run, bare, Silence()) == tasks
    assert bare.num_started == 0


@pytest.mark.slow
async def test_run_qualifies_package_tasks_that_it_makes(tasks, bare):
    run = RunConfig.model_validate({"train_tasks": {"package": "toolz==1.0.0"}})
    admitted = await admit(tasks, run, bare, Silence())
    assert [task.instance_id for task in admitted.tasks] == [task.instance_id for task in tasks.tasks]
    assert {record.repeats for record in read_qualifications(tasks, PLAIN).values()} == {5}
    started = bare.num_started
    assert await admit(tasks, run, bare, Silence()) == admitted
    assert bare.num_started == started


async def test_audit_fault_counts_as_not_known(tasks, bare):
    write_down(tasks, [Verdict.QUALIFIED] * 3)
    recorded = RecordedProgress()
    config = RunConfig.model_validate({"train_tasks": {"path": "x"}})
    kept = await admit(tasks, config, bare, recorded)
    assert re.fullmatch(r"train: .*\b0 of 3 tasks.* 3 .*", *recorded.lines)
    assert describe_abilities(kept.list_abilities()) == {"audit/can_decide_share": 0.0, "audit/not_known_share": 1.0}


async def test_recorded_mutants_reach_only_the_auditor(tasks):
    mutant = Mutant("test_shop.py::test_small", (Edit(3, 5, "a secret"),))
    for tree in tasks.list_trees():
        record = Qualification(
            instance_id=tree.instance_id,
            key=make_key(tree, PLAIN),
            verdict=Verdict.QUALIFIED,
            audit=Ability(mutants=(mutant,)),
        )
        append_record(find_record_file(tasks), record)
    kept = keep_qualified(tasks, PLAIN, Silence())
    assert list_mutants(kept) == dict.fromkeys(("first", "second", "third"), (mutant,))
    assert not any("a secret" in task.model_dump_json() for task in kept.tasks)


async def test_sandboxes_do_not_show_the_records(tasks, provider):
    write_down(tasks, [Verdict.QUALIFIED] * 3)
    [tree, *_] = tasks.list_trees()
    async with started(provider, SandboxSpec.of(tree)) as sandbox:
        found = await sandbox.exec("find / -name qualification.jsonl -not -path '/proc/*' 2> /dev/null", timeout_s=60)
    assert found.output == b""
