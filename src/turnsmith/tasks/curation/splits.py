"""Rows to parts: by a hash, so that a row goes to the same part today, tomorrow, and in a larger file; or by date."""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from turnsmith.errors import UsageError
from turnsmith.tasks.curation.dates import read_date
from turnsmith.tasks.curation.repositories import name_repository
from turnsmith.tasks.curation.rows import TaskRow

PART_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SLACK = 1e-9


@dataclass(frozen=True)
class Part:
    """A part and its share of the whole."""

    name: str
    share: float


def parse_parts(text: str) -> list[Part]:
    """`train=0.9,eval=0.1` → two parts. Raises UsageError where they are no parts of a whole."""
    parts = [_parse_part(piece, text) for piece in text.split(",")]
    if len({part.name for part in parts}) < len(parts):
        raise UsageError(f"--into {text}: a part is named twice: give each its own name")
    if len(parts) < 2 or abs(sum(part.share for part in parts) - 1) > SLACK:
        raise UsageError(f"--into {text}: give two parts or more whose shares add up to 1, as train=0.9,eval=0.1")
    return parts


def _parse_part(piece: str, text: str) -> Part:
    name, _, share = piece.strip().partition("=")
    try:
        part = Part(name, float(share))
    except ValueError:
        part = Part(name, 0.0)
    if not PART_NAME.fullmatch(name) or not 0 < part.share < 1:
        raise UsageError(f"--into {text}: {piece!r} is no NAME=SHARE with a share between 0 and 1")
    return part


def choose_part(key: str, parts: Sequence[Part], seed: int) -> Part:
    """The part of all rows with this key."""
    place = int.from_bytes(hashlib.sha256(f"{seed} {key}".encode(errors="surrogatepass")).digest()[:8], "big") / 2**64
    reached = 0.0
    for part in parts:
        reached += part.share
        if place < reached:
            return part
    return parts[-1]


def key_by_repository(row: TaskRow) -> str:
    """All tasks of a repository, its forks and mirrors stay together. Raises UsageError where the row names none."""
    name = name_repository(row)
    if not name:
        raise UsageError(f"{row.place}: column 'repo' is missing or empty: give --by id")
    return name


def key_by_id(row: TaskRow) -> str:
    """Each task for itself."""
    return row.instance_id


def cut_by_date(rows: Iterable[TaskRow], parts: Sequence[Part]) -> dict[str, Part]:
    """The part of each id: the oldest tasks in the first, the newest in the last. Raises UsageError where one has no date."""
    dates = {row.instance_id: find_date(row) for row in rows}
    names = sorted(dates, key=lambda name: (dates[name], name))
    placed, start, reached = dict[str, Part](), 0, 0.0
    for part in parts:
        reached += part.share
        end = round(reached * len(names))
        placed |= dict.fromkeys(names[start:end], part)
        start = end
    return placed


def find_date(row: TaskRow) -> datetime:
    """When a task came up. Raises UsageError where the row does not say."""
    if date := read_date(row.columns, row.meta):
        return date
    raise UsageError(
        f"{row.place}: {row.instance_id!r} has no date, as neither 'created_at' nor 'meta.date' is one in ISO text: "
        "leave it out, or give --by repo"
    )


KEYS: dict[str, Callable[[TaskRow], str]] = {"repo": key_by_repository, "id": key_by_id}
