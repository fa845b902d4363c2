"""Is a training row one of the rows that are evaluated on, in other clothes?

The evaluation set is held in memory, as shingles; training rows stream by. MinHash finds candidates, and what is said of a pair
is its exact likeness.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from datasketch import MinHashLSH

from turnsmith.errors import UsageError
from turnsmith.tasks.curation.repositories import find_commits, identify, name_repository
from turnsmith.tasks.curation.rows import TaskRow
from turnsmith.tasks.curation.similarity import (
    NUM_HASHES,
    Shingles,
    measure_likeness,
    shingle_issue,
    shingle_patch,
    sketch,
)

IDENTITIES = ("id", "repo")
WAYS = (*IDENTITIES, "patch", "issue")
"""What two rows are compared by."""
THRESHOLDS = {"patch": 0.5, "issue": 0.33}
"""Likeness from which two rows are one task; tuned by `bench/curation.py`."""
BANDS = {"patch": (42, 3), "issue": (63, 2)}
"""Bands and their rows in the index: of pairs at the threshold, 99.6 and 99.9 % become candidates."""


def choose_ways(given: Sequence[str]) -> Sequence[str]:
    """The ways that are named, each once, or all. Raises UsageError where there is none of that name."""
    if unknown := next((way for way in given if way not in WAYS), None):
        raise UsageError(f"--by {unknown}: rows are compared by {', '.join(WAYS)}")
    return list(dict.fromkeys(given)) or WAYS


def parse_thresholds(given: Sequence[str]) -> dict[str, float]:
    """`["patch=0.6"]` → `{"patch": 0.6}`. Raises UsageError."""
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = -1.0
        if name not in THRESHOLDS or not 0 < found[name] <= 1:
            raise UsageError(f"--likeness {text}: give patch or issue and a number above 0 and up to 1, as patch=0.6")
    return found


@dataclass(frozen=True)
class Match:
    """A training row and the evaluated row that it is taken for."""

    train_id: str
    eval_id: str
    by: str
    likeness: float


@dataclass
class Likenesses:
    """Evaluated texts of one column, to be found by what they have in common with another."""

    way: str
    threshold: float
    shingles: dict[str, Shingles] = field(default_factory=dict)
    num_too_short: int = 0
    """Rows seen so far, of either side, that could not be compared."""

    def __post_init__(self) -> None:
        self.index = MinHashLSH(num_perm=NUM_HASHES, params=BANDS[self.way])

    def add(self, row: TaskRow) -> None:
        """Hold an evaluated row, the first of its id: sets of one source share tasks."""
        if row.instance_id not in self.shingles and (found := self._cut(row)):
            self.shingles[row.instance_id] = found
            self.index.insert(row.instance_id, sketch(found))

    def find(self, row: TaskRow) -> Match | None:
        """The likest evaluated row, where it is like enough."""
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
class Identities:
    """Evaluated rows by their id and commit, or by their repository: its name, and commits, which forks share."""

    way: str
    rows: dict[str, str] = field(default_factory=dict)
    num_too_short: int = 0

    def add(self, row: TaskRow) -> None:
        """Hold an evaluated row."""
        for name in self._names(row):
            self.rows.setdefault(name, row.instance_id)

    def find(self, row: TaskRow) -> Match | None:
        """An evaluated row of the same identity."""
        found = [self.rows[name] for name in self._names(row) if name in self.rows]
        return Match(row.instance_id, found[0], self.way, 1.0) if found else None

    def _names(self, row: TaskRow) -> list[str]:
        names = identify(row) if self.way == "id" else [name_repository(row), *find_commits(row)]
        return [name for name in names if name]


Index = Sequence[Identities | Likenesses]


def index_rows(rows: Iterable[TaskRow], ways: Sequence[str], thresholds: Mapping[str, float] = THRESHOLDS) -> Index:
    """The evaluation set, to be searched in the given ways."""
    index = [Identities(way) if way in IDENTITIES else Likenesses(way, thresholds[way]) for way in ways]
    for row in rows:
        for held in index:
            held.add(row)
    return index


def find_matches(row: TaskRow, index: Index) -> list[Match]:
    """What a training row is taken for, one match for each way at most."""
    return [match for held in index if (match := held.find(row))]
