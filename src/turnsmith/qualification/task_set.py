"""Qualification of task sets: examines if each task is fit for training, and stores the results beside the task file."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from turnsmith.audit.ability import summarise_abilities
from turnsmith.config import RunConfig, SandboxConfig
from turnsmith.errors import SandboxError, UsageError
from turnsmith.grading.cases import Case
from turnsmith.qualification.copies import SystemFiles, search_system
from turnsmith.qualification.examination import Criteria, examine, is_settled
from turnsmith.qualification.gold_runs import group_gold_runs
from turnsmith.qualification.record import FILE_NAME, VERSION, Qualification, make_key, qualified
from turnsmith.runs.folder import append_record, hold, read_records
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import for_each
from turnsmith.types import Task


async def qualify_task_set(
    task_set: TaskSet, criteria: Criteria, num_workers: int, provider: SandboxProvider, progress: Progress
) -> list[Qualification]:
    """Examine the tasks that have no conclusive record, write each record when it is known, and return those of all tasks.

    Raises UsageError if another process qualifies these tasks; SandboxError if a sandbox cannot be searched for the fix.
    """
    with find_record_file(task_set).open("ab") as records:
        hold(records)
        known = read_qualifications(task_set, criteria.sandbox)
        cases = [Case(tree, provider, criteria.tests_timeout_s) for tree in task_set.list_trees()]
        done = {name for name, record in known.items() if is_settled(record, criteria)}
        waiting = [case for case in cases if case.task.instance_id not in done]
        if done:
            left = f"the other {len(waiting)} are examined now" if waiting else "none is left to examine"
            progress.log(f"{task_set.name}: {len(done)} of {len(cases)} tasks were examined earlier; {left}")
        if waiting:
            systems = await _search_systems(waiting, progress)
            known |= await _examine_all(task_set, waiting, systems, criteria, num_workers, progress)
        return [known[task.instance_id] for task in task_set.tasks]


async def _search_systems(cases: Sequence[Case], progress: Progress) -> dict[str, SystemFiles]:
    """Search each image and environment once for copies of the patches of all tasks that use it."""
    first = {name_system(case.task): case for case in cases}
    systems: dict[str, SystemFiles] = {}
    with progress.work("searching for copies outside of the trees", len(first)) as work:
        for system, case in first.items():
            tasks = [other.task for other in cases if name_system(other.task) == system]
            try:
                systems[system] = await search_system(case.provider, SandboxSpec.of(case.tree), tasks)
            except SandboxError as error:
                name = case.task.instance_id
                raise SandboxError(f"the search for copies failed in a sandbox of {name}: {error}") from error
            work.advance()
    return systems


def name_system(task: Task) -> str:
    """Return a key that tasks with the same image and environment share."""
    return f"{task.image}\n{task.environment}"


async def _examine_all(
    task_set: TaskSet,
    cases: Sequence[Case],
    systems: Mapping[str, SystemFiles],
    criteria: Criteria,
    num_workers: int,
    progress: Progress,
) -> dict[str, Qualification]:
    groups = await asyncio.to_thread(group_gold_runs, cases)
    records: dict[str, Qualification] = {}

    async def work(case: Case) -> str:
        name = case.task.instance_id
        records[name] = await examine(case, systems[name_system(case.task)], criteria, groups.get(name))
        append_record(find_record_file(task_set), records[name])
        return f"{sum(each.is_qualified for each in records.values())} qualified"

    await for_each(cases, work, progress, f"qualifying {task_set.name}", num_workers=num_workers, describe=str)
    return records


async def admit(train_tasks: TaskSet, config: RunConfig, provider: SandboxProvider, progress: Progress) -> TaskSet:
    """Return the qualified tasks, on which a run may train. Raises UsageError, SandboxError.

    Practice tasks are not examined: the run generates them and has already run their tests, and since their repositories are
    new, an agent can find no copy of a fix.
    """
    source = config.train_tasks
    if not source or source.practice_tasks or not config.require_qualified:
        return train_tasks
    if source.package and len(read_qualifications(train_tasks, config.sandbox)) < len(train_tasks.tasks):
        criteria = Criteria(tests_timeout_s=config.rollouts.tests_timeout_s, sandbox=config.sandbox)
        await qualify_task_set(train_tasks, criteria, config.rollouts.grading_workers, provider, progress)
    kept = keep_qualified(train_tasks, config.sandbox, progress)
    progress.log(f"{kept.name}: {summarise_abilities(kept.list_abilities())}")
    return kept


def find_record_file(task_set: TaskSet) -> Path:
    return task_set.file.with_name(FILE_NAME)


def read_current_records(task_set: TaskSet) -> list[Qualification]:
    """Read all records of the current record version, even of tasks that have changed since."""
    return list(read_records(find_record_file(task_set), Qualification, f'"version":{VERSION},'))


def read_qualifications(task_set: TaskSet, sandbox: SandboxConfig) -> dict[str, Qualification]:
    """Read each task's last record that was made with its present files, settings and version of pytest."""
    records = read_current_records(task_set)
    keys = {tree.instance_id: make_key(tree, sandbox) for tree in task_set.list_trees() if records}
    return {record.instance_id: record for record in records if keys.get(record.instance_id) == record.key}


def keep_qualified(task_set: TaskSet, sandbox: SandboxConfig, progress: Progress) -> TaskSet:
    """Keep the qualified tasks, without quarantined tests, for training.

    Reports tasks that are left out. Raises UsageError if a task was never examined.
    """
    records = read_qualifications(task_set, sandbox)
    unknown = [task for task in task_set.tasks if task.instance_id not in records]
    if unknown:
        what = f"{len(unknown)} of {len(task_set.tasks)} tasks in {task_set.file} are not qualified"
        remedy = f"run `turnsmith tasks qualify {task_set.file.parent}` first, or set require_qualified = false"
        raise UsageError(f"{what}, e.g. {unknown[0].instance_id}: {remedy}")
    return leave_out(task_set, records, progress)


def leave_out_unfit(task_set: TaskSet, sandbox: SandboxConfig, progress: Progress) -> TaskSet:
    """Remove tasks with an unfit verdict from an evaluation set; keep tasks that were not examined."""
    return leave_out(task_set, read_qualifications(task_set, sandbox), progress)


def leave_out(task_set: TaskSet, records: Mapping[str, Qualification], progress: Progress) -> TaskSet:
    """Return a task set without its unfit tasks and quarantined tests. Raises UsageError if no task is left."""
    known = [(task, records.get(task.instance_id)) for task in task_set.tasks]
    kept = [(task, record) for task, record in known if not record or record.is_qualified]
    unfit = Counter(record.verdict.value for _, record in known if record and not record.is_qualified)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(unfit.items()))
    if not kept:
        raise UsageError(f"none of the {len(known)} tasks in {task_set.file} is qualified: {counts}")
    if unfit:
        progress.log(f"{task_set.name}: {unfit.total()} of {len(known)} tasks are left out: {counts}")
    if num_quarantined := sum(len(record.quarantined) for _, record in kept if record):
        progress.log(f"{task_set.name}: {num_quarantined} quarantined tests are not required to pass")
    return replace(
        task_set,
        tasks=[qualified(task, record) if record else task for task, record in kept],
        abilities={record.instance_id: record.audit for _, record in kept if record and record.audit},
    )
