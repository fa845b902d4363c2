"""Which tasks are fit to be trained on: examined once, found again by content, kept beside the task file."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from turnsmith.audit.ability import say_abilities
from turnsmith.config import RunConfig, SandboxConfig
from turnsmith.errors import SandboxError, UsageError
from turnsmith.grading.cases import Case
from turnsmith.qualification.copies import SystemFiles, look_into_system
from turnsmith.qualification.examination import Criteria, examine, is_settled
from turnsmith.qualification.gold_runs import find_cures
from turnsmith.qualification.record import FILE_NAME, VERSION, Qualification, make_key, qualified
from turnsmith.runs.folder import append_record, hold, read_records
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking import Progress
from turnsmith.types import Task


async def qualify_task_set(
    task_set: TaskSet, criteria: Criteria, num_workers: int, provider: SandboxProvider, progress: Progress
) -> list[Qualification]:
    """The records of all tasks, in their order; each is written down as it comes, and what is on record is not done again.

    Raises UsageError where another process does the same, SandboxError where no sandbox can be looked through.
    """
    with find_record_file(task_set).open("ab") as records:
        hold(records)
        known = read_qualifications(task_set, criteria.sandbox)
        cases = [Case(tree, provider, criteria.tests_timeout_s) for tree in task_set.list_trees()]
        done = {name for name, record in known.items() if is_settled(record, criteria)}
        waiting = [case for case in cases if case.task.instance_id not in done]
        if done:
            left = f"{len(waiting)} are left" if waiting else "nothing is run"
            progress.say(f"{task_set.name}: {len(done)} of {len(cases)} tasks are on record, {left}")
        if waiting:
            systems = await _look_into_systems(waiting, progress)
            known |= await _examine_all(task_set, waiting, systems, criteria, num_workers, progress)
        return [known[task.instance_id] for task in task_set.tasks]


async def _look_into_systems(cases: Sequence[Case], progress: Progress) -> dict[str, SystemFiles]:
    """System → what its sandboxes show; one look serves all tasks of it."""
    label, first = "looking for copies outside of the trees", {name_system(case.task): case for case in cases}
    progress.begin(label, len(first))
    systems: dict[str, SystemFiles] = {}
    for system, case in first.items():
        tasks = [other.task for other in cases if name_system(other.task) == system]
        try:
            systems[system] = await look_into_system(case.provider, SandboxSpec.of(case.tree), tasks)
        except SandboxError as error:
            name = case.task.instance_id
            raise SandboxError(f"no copies could be looked for in a sandbox of {name}: {error}") from error
        progress.advance(label)
    progress.end(label)
    return systems


def name_system(task: Task) -> str:
    """What its sandboxes show around the tree."""
    return f"{task.image}\n{task.environment}"


async def _examine_all(
    task_set: TaskSet,
    cases: Sequence[Case],
    systems: Mapping[str, SystemFiles],
    criteria: Criteria,
    num_workers: int,
    progress: Progress,
) -> dict[str, Qualification]:
    label, free = f"qualifying {task_set.name}", asyncio.Semaphore(num_workers)
    progress.begin(label, len(cases))
    cures = await asyncio.to_thread(find_cures, cases)
    records: dict[str, Qualification] = {}

    async def work(case: Case) -> None:
        async with free:
            name = case.task.instance_id
            record = await examine(case, systems[name_system(case.task)], criteria, cures.get(name))
        append_record(find_record_file(task_set), record)
        records[record.instance_id] = record
        progress.advance(label, note=f"{sum(each.is_qualified for each in records.values())} qualified")

    async with asyncio.TaskGroup() as group:
        for case in cases:
            group.create_task(work(case))
    progress.end(label)
    return records


async def admit(train_tasks: TaskSet, config: RunConfig, provider: SandboxProvider, progress: Progress) -> TaskSet:
    """The tasks that a run may learn from. Raises UsageError, SandboxError.

    Of practice tasks that the run has made itself nothing more is asked: each was kept because its tests told the two trees
    apart in this very run, its history was written for it, and of a repository that was invented there is no copy anywhere.
    """
    source = config.train_tasks
    if not source or source.practice_tasks or not config.require_qualified:
        return train_tasks
    if source.package and len(read_qualifications(train_tasks, config.sandbox)) < len(train_tasks.tasks):
        criteria = Criteria(tests_timeout_s=config.rollouts.tests_timeout_s, sandbox=config.sandbox)
        await qualify_task_set(train_tasks, criteria, config.rollouts.grading_workers, provider, progress)
    kept = keep_qualified(train_tasks, config.sandbox, progress)
    progress.say(f"{kept.name}: {say_abilities(kept.list_abilities())}")
    return kept


def find_record_file(task_set: TaskSet) -> Path:
    """The records of a task file lie beside it."""
    return task_set.file.with_name(FILE_NAME)


def read_qualifications(task_set: TaskSet, sandbox: SandboxConfig) -> dict[str, Qualification]:
    """The last record of each task as it is now; one of an older row, other layers or another pytest says nothing of it."""
    records = list(read_records(find_record_file(task_set), Qualification, f'"version":{VERSION},'))
    keys = {tree.instance_id: make_key(tree, sandbox) for tree in task_set.list_trees() if records}
    return {record.instance_id: record for record in records if keys.get(record.instance_id) == record.key}


def keep_qualified(task_set: TaskSet, sandbox: SandboxConfig, progress: Progress) -> TaskSet:
    """Tasks to train on: those on record as qualified, without the tests in quarantine. Raises UsageError.

    What has fallen out is left out, and said; what was never examined is refused.
    """
    records = read_qualifications(task_set, sandbox)
    unknown = [task for task in task_set.tasks if task.instance_id not in records]
    if unknown:
        what = f"{len(unknown)} of {len(task_set.tasks)} tasks in {task_set.file} are not qualified"
        remedy = f"run `turnsmith tasks qualify {task_set.file.parent}` first, or set require_qualified = false"
        raise UsageError(f"{what}, e.g. {unknown[0].instance_id}: {remedy}")
    return leave_out(task_set, records, progress)


def leave_out_unfit(task_set: TaskSet, sandbox: SandboxConfig, progress: Progress) -> TaskSet:
    """Tasks to evaluate on: what is on record as unfit is left out, and said; of the rest nothing is asked."""
    return leave_out(task_set, read_qualifications(task_set, sandbox), progress)


def leave_out(task_set: TaskSet, records: Mapping[str, Qualification], progress: Progress) -> TaskSet:
    """A task set without what has fallen out, and without tests in quarantine. Raises UsageError where nothing is left."""
    known = [(task, records.get(task.instance_id)) for task in task_set.tasks]
    kept = [(task, record) for task, record in known if not record or record.is_qualified]
    unfit = Counter(record.verdict.value for _, record in known if record and not record.is_qualified)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(unfit.items()))
    if not kept:
        raise UsageError(f"none of the {len(known)} tasks in {task_set.file} is qualified: {counts}")
    if unfit:
        progress.say(f"{task_set.name}: {unfit.total()} of {len(known)} tasks are left out: {counts}")
    if num_quarantined := sum(len(record.quarantined) for _, record in kept if record):
        progress.say(f"{task_set.name}: {num_quarantined} tests in quarantine are not asked for")
    return replace(
        task_set,
        tasks=[qualified(task, record) if record else task for task, record in kept],
        abilities={record.instance_id: record.audit for _, record in kept if record and record.audit},
    )
