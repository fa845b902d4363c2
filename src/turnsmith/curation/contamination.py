"""Removal of training tasks that duplicate evaluation tasks.

The evaluation set is held in memory as shingles (hashes of runs of tokens, or of single words); training rows are read one by
one. MinHash finds candidate pairs, whose exact Jaccard similarity is then computed and reported.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from datasketch import MinHashLSH

from turnsmith.curation.files import keep_rows, stream_rows, write_rows
from turnsmith.curation.repositories import find_commits, identify, name_repository
from turnsmith.curation.rows import TaskRow, count_rows, read_rows
from turnsmith.curation.similarity import NUM_HASHES, Shingles, measure_likeness, shingle_issue, shingle_patch, sketch
from turnsmith.errors import UsageError
from turnsmith.runs.new_folders import building
from turnsmith.tasks.dataset import find_task_file
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import follow

CONTAMINATED = "contaminated.jsonl"
IDENTITIES = ("id", "repo")
WAYS = (*IDENTITIES, "patch", "issue")
"""Criteria by which a training row can match an evaluation row: same task id, same repository, similar patch or issue."""
THRESHOLDS = {"patch": 0.5, "issue": 0.33}
"""Criterion → minimum Jaccard similarity of two rows that count as duplicates; `bench/curation.py` tests these limits."""
BANDS = {"patch": (42, 3), "issue": (63, 2)}
"""Criterion → (bands, rows per band) of its MinHash index. It finds over 99 % of pairs as similar as `THRESHOLDS` requires."""


def choose_ways(given: Sequence[str]) -> Sequence[str]:
    """Return the given criteria without repeats; all if none is given. Raises UsageError if one is unknown."""
    if unknown := next((way for way in given if way not in WAYS), None):
        raise UsageError(f"--by {unknown}: there is no such criterion; choose from {', '.join(WAYS)}")
    return list(dict.fromkeys(given)) or WAYS


def parse_thresholds(given: Sequence[str]) -> dict[str, float]:
    """Parse similarity thresholds: `["patch=0.6"]` → `{"patch": 0.6}`. Raises UsageError."""
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = -1.0
        if name not in THRESHOLDS or not 0 < found[name] <= 1:
            raise UsageError(f"--likeness {text}: give patch=NUMBER or issue=NUMBER, above 0 and at most 1")
    return found


@dataclass(frozen=True)
class Match:
    """Training row and the evaluation row that it duplicates."""

    train_id: str
    eval_id: str
    by: str
    likeness: float


@dataclass
class SimilarityIndex:
    """MinHash index of the gold patches, or of the issues, of all evaluation tasks."""

    way: str
    threshold: float
    shingles: dict[str, Shingles] = field(default_factory=dict)
    num_too_short: int = 0
    """Number of training and evaluation rows whose text was too short to compare."""

    def __post_init__(self) -> None:
        self.index = MinHashLSH(num_perm=NUM_HASHES, params=BANDS[self.way])

    def add(self, row: TaskRow) -> None:
        """Add an evaluation row; later rows with the same id are ignored."""
        if row.instance_id not in self.shingles and (found := self._cut(row)):
            self.shingles[row.instance_id] = found
            self.index.insert(row.instance_id, sketch(found))

    def find(self, row: TaskRow) -> Match | None:
        """Match a training row with the most similar evaluation row; None if the similarity is below the threshold."""
        if not (mine := self._cut(row)):
            return None
        candidates = [(measure_likeness(mine, self.shingles[name]), name) for name in self.index.query(sketch(mine))]
        likeness, name = max(candidates, default=(0.0, ""))
        return Match(row.instance_id, name, self.way, round(likeness, 4)) if likeness >= self.threshold else None

    def _cut(self, row: TaskRow) -> Shingles:
        found = (
            shingle_patch(row.text("patch") or "")
            if self.way == "patch"
            else shingle_issue(row.text("problem_statement") or "")
        )
        self.num_too_short += not found
        return found


@dataclass
class IdentityIndex:
    """Index of evaluation rows by task id and mined commit, or by repository name and commits, which are the same in forks."""

    way: str
    rows: dict[str, str] = field(default_factory=dict)
    num_too_short: int = 0

    def add(self, row: TaskRow) -> None:
        for name in self._names(row):
            self.rows.setdefault(name, row.instance_id)

    def find(self, row: TaskRow) -> Match | None:
        """Match a training row with an evaluation row of the same task or repository."""
        found = [self.rows[name] for name in self._names(row) if name in self.rows]
        return Match(row.instance_id, found[0], self.way, 1.0) if found else None

    def _names(self, row: TaskRow) -> list[str]:
        names = identify(row) if self.way == "id" else [name_repository(row), *find_commits(row)]
        return [name for name in names if name]


Index = Sequence[IdentityIndex | SimilarityIndex]


def index_rows(rows: Iterable[TaskRow], ways: Sequence[str], thresholds: Mapping[str, float] = THRESHOLDS) -> Index:
    """Build one index of the evaluation set for each criterion in `ways`."""
    index = [IdentityIndex(way) if way in IDENTITIES else SimilarityIndex(way, thresholds[way]) for way in ways]
    for row in rows:
        for held in index:
            held.add(row)
    return index


def find_matches(row: TaskRow, index: Index) -> list[Match]:
    """Return the evaluation rows that a training row duplicates, at most one per criterion."""
    return [match for held in index if (match := held.find(row))]


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
