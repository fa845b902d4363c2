"""Filters, splits and merges of task files. Rows are read one by one; qualification records of kept tasks are copied."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from turnsmith.curation import scoring
from turnsmith.curation.filters import Filter
from turnsmith.curation.funnel import Funnel
from turnsmith.curation.repositories import identify
from turnsmith.curation.rows import RunFacts, TaskRow, count_rows, read_rows, relocate
from turnsmith.curation.splits import Part, choose_part, cut_by_date, cut_by_repository, find_repository
from turnsmith.errors import UsageError
from turnsmith.qualification import record as qualification
from turnsmith.qualification.record import Qualification
from turnsmith.runs.folder import append_record, read_records, write_json
from turnsmith.runs.new_folders import building, make_folder
from turnsmith.tasks.dataset import FILE_NAME, find_task_file
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import follow

DROPPED, FUNNEL = "dropped.jsonl", "funnel.json"
RowWithTarget = tuple[str, TaskRow]
"""Name of the output subfolder whose task file receives the row ("" for the output folder itself), and the row."""


def filter_task_file(
    path: Path, filters: Sequence[Filter], out: Path, limit: int | None, drop_unknown: bool, progress: Progress
) -> Funnel:
    """Write the tasks that pass the filters to the new folder `out`; log why others were dropped. Raises UsageError."""
    file, funnel = find_task_file(path), Funnel(filters, drop_unknown)
    rows = add_facts(stream_rows(file, f"filtering {path.name}", progress, limit), file)
    with building(out) as folder:
        if not write_rows(keep_rows(funnel.sift(rows), folder / DROPPED), file, folder, out):
            raise UsageError(_explain_empty(file, funnel))
        write_json(folder / FUNNEL, funnel.to_json())
    return funnel


def _explain_empty(file: Path, funnel: Funnel) -> str:
    if not funnel.num_rows:
        return f"{file} holds no task: make some with `turnsmith tasks make`"
    dropped = ", ".join(f"{stage.num_dropped} at {stage.filter}" for stage in funnel.stages if stage.num_dropped)
    return f"none of the {funnel.num_rows} tasks in {file} is left ({dropped}): give fewer filters, or other limits"


def keep_rows(judged: Iterable[tuple[TaskRow, Sequence[Any]]], log: Path) -> Iterator[RowWithTarget]:
    """Yield the rows that have no findings, i.e. no reasons to drop them. Write all findings to `log` as lines of JSON."""
    with log.open("w", encoding="utf-8") as lines:
        for row, findings in judged:
            lines.writelines(json.dumps(asdict(finding)) + "\n" for finding in findings)
            if not findings:
                yield "", row


def write_rows(rows: Iterable[RowWithTarget], file: Path, folder: Path, out: Path) -> dict[str, int]:
    """Write rows of `file`, with their qualification records, below `folder`: each row to the subfolder paired with it.

    `folder` is later renamed to `out`, so relative paths in the rows start at `out`. Return row counts by subfolder.
    """
    names = defaultdict[str, set[str]](set)
    with ExitStack() as opened:
        targets: dict[str, Any] = {}
        for part, row in rows:
            if part not in targets:
                targets[part] = opened.enter_context((make_folder(folder / part) / FILE_NAME).open("ab"))
            targets[part].write(relocate(row, file.parent, out / part) + b"\n")
            names[part].add(row.instance_id)
    for part, kept in names.items():
        copy_records(file, folder / part, kept)
    return {part: len(kept) for part, kept in names.items()}


def copy_records(file: Path, folder: Path, kept: set[str]) -> None:
    """Copy the last qualification record of each kept task from the folder of the task file `file` to `folder`."""
    records = {record.instance_id: record for record in read_current(file) if record.instance_id in kept}
    for record in records.values():
        append_record(folder / qualification.FILE_NAME, record)


def stream_rows(file: Path, label: str, progress: Progress, limit: int | None = None) -> Iterator[TaskRow]:
    """Yield the rows of a task file, reporting progress."""
    return follow(read_rows(file, limit), progress, label, count_rows(file, limit))


def add_facts(rows: Iterable[TaskRow], file: Path) -> Iterator[TaskRow]:
    """Attach qualification results and language-model scores to rows, if the task file's folder contains such records."""
    facts = {record.instance_id: to_facts(record) for record in read_current(file)}
    scored = read_records(file.with_name(scoring.FILE_NAME), scoring.ScoreRecord)
    scores = {record.instance_id: record.scores for record in scored}
    for row in rows:
        name = row.instance_id
        known = name in facts or name in scores
        yield replace(row, facts=facts.get(name), asked_scores=scores.get(name, {})) if known else row


def read_current(file: Path) -> Iterator[Qualification]:
    """Yield the current qualification records in a task file's folder, oldest first; skip those of interrupted runs."""
    beside = file.with_name(qualification.FILE_NAME)
    records = read_records(beside, Qualification, f'"version":{qualification.VERSION},')
    return (record for record in records if record.verdict.is_final)


def to_facts(record: Qualification) -> RunFacts:
    uneven = [
        test
        for test, passes in record.passes.items()
        if passes.gold not in (0, record.repeats) or passes.base not in (0, record.repeats)
    ]
    return RunFacts(
        missing_names=tuple(record.missing_names),
        num_repeats=record.repeats,
        flaky_tests=tuple(uneven),
        verdict=record.verdict.value,
        is_qualified=record.is_qualified,
    )


def split_task_file(
    path: Path, parts: Sequence[Part], by: str, seed: int, out: Path, limit: int | None, progress: Progress
) -> dict[str, int]:
    """Write each part of a split to a subfolder of the new folder `out`; return task counts. Raises UsageError."""
    file = find_task_file(path)
    choose = plan_split(file, parts, by, seed, limit, progress)
    rows = ((choose(row).name, row) for row in stream_rows(file, f"splitting {path.name}", progress, limit))
    with building(out) as folder:
        counts = write_rows(rows, file, folder, out)
        if empty := [part.name for part in parts if part.name not in counts]:
            remedy = ", or another --seed" if by == "id" else ""
            raise UsageError(f"{file}: the part {empty[0]} would get no task: give it a larger share{remedy}")
    return {part.name: counts[part.name] for part in parts}


def plan_split(
    file: Path, parts: Sequence[Part], by: str, seed: int, limit: int | None, progress: Progress
) -> Callable[[TaskRow], Part]:
    """Return a function from row to part; for a split by date or repository, read the whole file first. Raises UsageError."""
    if by == "id":
        return lambda row: choose_part(row.instance_id, parts, seed)
    rows = stream_rows(file, "reading the tasks", progress, limit)
    if by == "date":
        by_date = cut_by_date(rows, parts)
        return lambda row: by_date[row.instance_id]
    by_repository = cut_by_repository(Counter(map(find_repository, rows)), parts, seed)
    return lambda row: by_repository[find_repository(row)]


def merge_task_files(paths: Sequence[Path], out: Path, progress: Progress) -> dict[str, int]:
    """Write the tasks of all files to the new folder `out`; return task counts by file. Raises UsageError."""
    if len(paths) < 2:
        raise UsageError(f"{', '.join(map(str, paths))}: merging needs two task files or more: give another PATH")
    counts, owners = dict[str, int](), dict[str, Path]()
    with building(out) as folder:
        for file in map(find_task_file, paths):
            rows = claim_rows(stream_rows(file, f"merging {file.parent.name}", progress), file, owners)
            counts[str(file)] = write_rows(rows, file, folder, out).get("", 0)
    return counts


def claim_rows(rows: Iterable[TaskRow], file: Path, owners: dict[str, Path]) -> Iterator[RowWithTarget]:
    """Yield the rows of a file, and record it as the owner of its tasks (task → file). Raises UsageError for a repeated task."""
    for row in rows:
        for key in identify(row):
            if key in owners:
                how = "" if key == row.instance_id else f" under another id, made of the commit {key}"
                raise UsageError(f"{row.place}: {row.instance_id!r} is in {owners[key]} too{how}: remove it from one")
            owners[key] = file
        yield "", row
