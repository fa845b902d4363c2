"""Task files in, task files out: filtered, split and merged as they stream by, with what is on record of their tasks."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

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
from turnsmith.runs.new_folders import building
from turnsmith.tasks.dataset import FILE_NAME, find_task_file
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import follow

DROPPED, FUNNEL = "dropped.jsonl", "funnel.json"


def filter_task_file(
    path: Path, filters: Sequence[Filter], out: Path, limit: int | None, drop_unknown: bool, progress: Progress
) -> Funnel:
    """Write the tasks that stay into the new folder `out`, with the reasons of the others. Raises UsageError."""
    file, funnel = find_task_file(path), Funnel(filters, drop_unknown)
    rows = follow(add_facts(read_rows(file, limit), file), progress, f"filtering {path.name}", count_rows(file, limit))
    with building(out) as folder:
        stayed = set()
        with (folder / FILE_NAME).open("wb") as kept, (folder / DROPPED).open("w", encoding="utf-8") as reasons:
            for row, dropped in funnel.sift(rows):
                if dropped:
                    reasons.write(json.dumps(asdict(dropped)) + "\n")
                else:
                    kept.write(relocate(row, file.parent, out) + b"\n")
                    stayed.add(row.instance_id)
        if not stayed:
            raise UsageError(_say_nothing_left(file, funnel))
        write_json(folder / FUNNEL, funnel.to_json())
        copy_records(file, folder, stayed)
    return funnel


def _say_nothing_left(file: Path, funnel: Funnel) -> str:
    if not funnel.num_rows:
        return f"{file} holds no task: make some with `turnsmith tasks make`"
    fell = ", ".join(f"{stage.num_dropped} at {stage.filter}" for stage in funnel.stages if stage.num_dropped)
    return f"none of the {funnel.num_rows} tasks in {file} stays ({fell}): give fewer filters, or other limits"


def add_facts(rows: Iterable[TaskRow], file: Path) -> Iterator[TaskRow]:
    """The same rows with what their qualification has shown, and how a model has scored them, where that lies beside."""
    facts = {record.instance_id: to_facts(record) for record in read_current(file)}
    scored = read_records(file.with_name(scoring.FILE_NAME), scoring.ScoreRecord)
    scores = {record.instance_id: record.scores for record in scored}
    for row in rows:
        name = row.instance_id
        known = name in facts or name in scores
        yield replace(row, facts=facts.get(name), asked_scores=scores.get(name, {})) if known else row


def read_current(file: Path) -> Iterator[Qualification]:
    """Records beside a task file, of this version and final; of one task the last is the one that counts."""
    beside = file.with_name(qualification.FILE_NAME)
    records = read_records(beside, Qualification, f'"version":{qualification.VERSION},')
    return (record for record in records if record.verdict.is_final)


def to_facts(record: Qualification) -> RunFacts:
    """What filters want to know of a record."""
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
    """Write a folder for each part into the new folder `out`; returns the number of tasks of each. Raises UsageError."""
    file = find_task_file(path)
    choose = plan_split(file, parts, by, seed, limit, progress)
    rows = follow(read_rows(file, limit), progress, f"splitting {path.name}", count_rows(file, limit))
    with building(out) as folder, ExitStack() as opened:
        names: dict[str, set[str]] = {part.name: set() for part in parts}
        for name in names:
            (folder / name).mkdir()
        files = {name: opened.enter_context((folder / name / FILE_NAME).open("wb")) for name in names}
        for row in rows:
            name = choose(row).name
            files[name].write(relocate(row, file.parent, out / name) + b"\n")
            names[name].add(row.instance_id)
        if empty := [name for name, found in names.items() if not found]:
            remedy = ", or another --seed" if by == "id" else ""
            raise UsageError(f"{file}: no task falls into {empty[0]}: give it a larger share{remedy}")
        for name, found in names.items():
            copy_records(file, folder / name, found)
    return {name: len(found) for name, found in names.items()}


def plan_split(
    file: Path, parts: Sequence[Part], by: str, seed: int, limit: int | None, progress: Progress
) -> Callable[[TaskRow], Part]:
    """Plan the part of each row: by its id alone, or by its place among all, which are read first. Raises UsageError."""
    if by == "id":
        return lambda row: choose_part(row.instance_id, parts, seed)
    rows = follow(read_rows(file, limit), progress, "reading the tasks", count_rows(file, limit))
    if by == "date":
        by_date = cut_by_date(rows, parts)
        return lambda row: by_date[row.instance_id]
    by_repository = cut_by_repository(Counter(map(find_repository, rows)), parts, seed)
    return lambda row: by_repository[find_repository(row)]


def merge_task_files(paths: Sequence[Path], out: Path, progress: Progress) -> dict[str, int]:
    """Write the tasks of all into the new folder `out`; returns the number of each file. Raises UsageError."""
    if len(paths) < 2:
        raise UsageError(f"{', '.join(map(str, paths))} is one task file, and merging needs two: give another PATH")
    counts, owners = dict[str, int](), dict[str, Path]()
    with building(out) as folder, (folder / FILE_NAME).open("wb") as merged:
        for file in map(find_task_file, paths):
            names = set()
            for row in follow(read_rows(file), progress, f"merging {file.parent.name}", count_rows(file)):
                claim(row, file, owners)
                merged.write(relocate(row, file.parent, out) + b"\n")
                names.add(row.instance_id)
            copy_records(file, folder, names)
            counts[str(file)] = len(names)
    return counts


def claim(row: TaskRow, file: Path, owners: dict[str, Path]) -> None:
    """Write down which file has this task. Raises UsageError where one had it before, under this id or another."""
    for key in identify(row):
        if key in owners:
            how = "" if key == row.instance_id else f" under another id, made of the commit {key}"
            raise UsageError(
                f"{row.place}: {row.instance_id!r} is in {owners[key]} as well{how}: leave one of them out"
            )
        owners[key] = file


def copy_records(file: Path, folder: Path, stayed: set[str]) -> None:
    """Bring what is on record of the tasks that stayed."""
    records: Mapping[str, Qualification] = {
        record.instance_id: record for record in read_current(file) if record.instance_id in stayed
    }
    for record in records.values():
        append_record(folder / qualification.FILE_NAME, record)
