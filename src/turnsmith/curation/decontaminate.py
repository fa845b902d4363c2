"""Training tasks without those of an evaluation set."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path

from turnsmith.curation.contamination import Match, find_matches, index_rows
from turnsmith.curation.files import copy_records
from turnsmith.curation.rows import TaskRow, count_rows, read_rows, relocate
from turnsmith.errors import UsageError
from turnsmith.runs.new_folders import building
from turnsmith.tasks.dataset import FILE_NAME, find_task_file
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import follow

CONTAMINATED = "contaminated.jsonl"


@dataclass
class Decontamination:
    """What was compared and found."""

    num_evaluated: int
    num_rows: int = 0
    num_left: int = 0
    num_found: dict[str, int] = field(default_factory=dict)
    """Training rows by the way in which they were found; a row may be found in several."""
    num_too_short: dict[str, int] = field(default_factory=dict)
    """Rows of both sides that say too little to be compared, by way."""

    def add(self, matches: Sequence[Match]) -> None:
        """Count one training row."""
        self.num_rows += 1
        self.num_left += not matches
        for match in matches:
            self.num_found[match.by] = self.num_found.get(match.by, 0) + 1


def decontaminate_task_file(
    path: Path,
    against: Sequence[Path],
    ways: Sequence[str],
    thresholds: Mapping[str, float],
    out: Path,
    limit: int | None,
    progress: Progress,
) -> Decontamination:
    """Write what is no task of the evaluation sets into the new folder `out`, beside the pairs found. Raises UsageError."""
    file, evaluated = find_task_file(path), [find_task_file(other) for other in against]
    index = index_rows(_read_evaluated(evaluated, progress), ways, thresholds)
    report, stayed = Decontamination(sum(map(count_rows, evaluated))), set[str]()
    rows = follow(read_rows(file, limit), progress, f"comparing {path.name}", count_rows(file, limit))
    with building(out) as folder:
        with (folder / FILE_NAME).open("wb") as kept, (folder / CONTAMINATED).open("w", encoding="utf-8") as pairs:
            for row in rows:
                report.add(matches := find_matches(row, index))
                pairs.writelines(json.dumps(asdict(match)) + "\n" for match in matches)
                if not matches:
                    kept.write(relocate(row, file.parent, out) + b"\n")
                    stayed.add(row.instance_id)
        if not stayed:
            counts = ", ".join(f"{count} by {way}" for way, count in report.num_found.items()) or "it holds none"
            raise UsageError(f"no task of {file} stays ({counts}): take another set, or name what to compare by --by")
        copy_records(file, folder, stayed)
    report.num_too_short = {held.way: held.num_too_short for held in index if held.num_too_short}
    return report


def _read_evaluated(files: Sequence[Path], progress: Progress) -> Iterator[TaskRow]:
    rows = chain.from_iterable(map(read_rows, files))
    return follow(rows, progress, "reading what is evaluated", sum(map(count_rows, files)))
