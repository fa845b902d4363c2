"""Removal of training tasks that duplicate tasks of an evaluation set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from turnsmith.curation.contamination import Match, find_matches, index_rows
from turnsmith.curation.files import keep_rows, stream_rows, write_rows
from turnsmith.curation.rows import count_rows, read_rows
from turnsmith.errors import UsageError
from turnsmith.runs.new_folders import building
from turnsmith.tasks.dataset import find_task_file
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import follow

CONTAMINATED = "contaminated.jsonl"


@dataclass
class Decontamination:
    """Counts of a decontamination: compared, kept and contaminated training rows."""

    num_evaluated: int
    num_rows: int = 0
    num_left: int = 0
    num_found: dict[str, int] = field(default_factory=dict)
    """Criterion → number of contaminated training rows; a row may match several criteria."""
    num_too_short: dict[str, int] = field(default_factory=dict)
    """Criterion → number of training and evaluation rows whose text is too short to compare."""

    def add(self, matches: Sequence[Match]) -> Sequence[Match]:
        """Count one training row and its matches; return the matches."""
        self.num_rows += 1
        self.num_left += not matches
        for match in matches:
            self.num_found[match.by] = self.num_found.get(match.by, 0) + 1
        return matches


def decontaminate_task_file(
    path: Path,
    against: Sequence[Path],
    ways: Sequence[str],
    thresholds: Mapping[str, float],
    out: Path,
    limit: int | None,
    progress: Progress,
) -> Decontamination:
    """Write the tasks that match no task of `against` to the new folder `out`, with a list of all matches. Raises UsageError."""
    file, evaluated = find_task_file(path), [find_task_file(other) for other in against]
    report = Decontamination(sum(map(count_rows, evaluated)))
    known = chain.from_iterable(map(read_rows, evaluated))
    index = index_rows(follow(known, progress, "reading evaluation tasks", report.num_evaluated), ways, thresholds)
    rows = stream_rows(file, f"comparing {path.name}", progress, limit)
    with building(out) as folder:
        judged = ((row, report.add(find_matches(row, index))) for row in rows)
        if not write_rows(keep_rows(judged, folder / CONTAMINATED), file, folder, out):
            counts = (
                ", ".join(f"{count} dropped by {way}" for way, count in report.num_found.items()) or "it holds none"
            )
            raise UsageError(f"no task of {file} is left ({counts}): give another task file, or fewer criteria by --by")
    report.num_too_short = {held.way: held.num_too_short for held in index if held.num_too_short}
    return report
