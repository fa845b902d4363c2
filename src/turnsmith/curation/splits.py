"""Splits of rows into parts: by whole repositories, by a hash of the id, or by date."""

import hashlib
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from turnsmith.curation.repositories import name_repository
from turnsmith.curation.rows import TaskRow
from turnsmith.errors import UsageError

PART_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SLACK = 1e-9
"""Maximum deviation of the sum of all shares from 1."""


@dataclass(frozen=True)
class Part:
    """Part of a split: its name and its share of all rows."""

    name: str
    share: float


def parse_parts(text: str) -> list[Part]:
    """Parse parts such as `train=0.9,eval=0.1`. Raises UsageError if the shares do not add up to 1."""
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
    if not PART_NAME.fullmatch(name):
        raise UsageError(f"--into {text}: {name!r} cannot name a part: use letters, digits, dots, dashes, underscores")
    if not 0 < part.share < 1:
        raise UsageError(f"--into {text}: {piece!r} is not NAME=SHARE with a share between 0 and 1")
    return part


def choose_part(instance_id: str, parts: Sequence[Part], seed: int) -> Part:
    """Choose the part of a task by a hash of its id and the seed, so the choice does not depend on the other tasks."""
    place = (
        int.from_bytes(hashlib.sha256(f"{seed} {instance_id}".encode(errors="surrogatepass")).digest()[:8], "big")
        / 2**64
    )
    reached = 0.0
    for part in parts:
        reached += part.share
        if place < reached:
            return part
    return parts[-1]


def find_repository(row: TaskRow) -> str:
    """Return the normalised repository name of a row. Raises UsageError if it has none."""
    name = name_repository(row)
    if not name:
        raise UsageError(f"{row.place}: column 'repo' is missing or empty: give --by id")
    return name


def cut_by_repository(sizes: Mapping[str, int], parts: Sequence[Part], seed: int) -> dict[str, Part]:
    """Assign repositories, given their task counts, to parts so that each part's task count is near its share.

    Smaller shares are filled first; the largest part gets the remaining repositories. The seed decides between equally good
    choices. Raises UsageError if there are fewer repositories than parts.
    """
    if len(sizes) < len(parts):
        number = "1 repository" if len(sizes) == 1 else f"{len(sizes)} repositories"
        raise UsageError(f"{number} cannot be divided among {len(parts)} parts: give fewer parts, or --by id")
    names = sorted(sizes)
    random.Random(seed).shuffle(names)
    left, placed = {name: sizes[name] for name in names}, dict[str, Part]()
    *smaller, largest = sorted(parts, key=lambda part: part.share)
    for num_after, part in zip(range(len(smaller), 0, -1), smaller, strict=True):
        placed |= dict.fromkeys(choose_nearest(left, part.share * sum(sizes.values()), num_after), part)
        left = {name: size for name, size in left.items() if name not in placed}
    return placed | dict.fromkeys(left, largest)


def choose_nearest(sizes: Mapping[str, int], wanted: float, num_left: int) -> list[str]:
    """Choose names whose sizes sum to `wanted` as nearly as possible. At least `num_left` names are not chosen."""
    reached = list(accumulate(sizes.values(), lambda sums, size: sums | sums << size, initial=1))
    sums = [number for number, bit in enumerate(reversed(f"{reached[-1]:b}")) if bit == "1" and number]
    choices = (_trace(sizes, reached, number) for number in sorted(sums, key=lambda number: abs(number - wanted)))
    return next(names for names in choices if len(sizes) - len(names) >= num_left)


def _trace(sizes: Mapping[str, int], reached: Sequence[int], total: int) -> list[str]:
    """Find names whose sizes sum to `total`. Bit `s` of `reached[n]` is set if some of the first `n` sizes sum to `s`."""
    names = []
    for (name, size), before in reversed([*zip(sizes.items(), reached, strict=False)]):
        if not before >> total & 1:
            names.append(name)
            total -= size
    return names


def cut_by_date(rows: Iterable[TaskRow], parts: Sequence[Part]) -> dict[str, Part]:
    """Assign task ids to parts by creation date, oldest first. Raises UsageError if a row has no date."""
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
    """Return the creation date of a task. Raises UsageError if the row has none."""
    if date := read_date(row.columns, row.meta):
        return date
    raise UsageError(
        f"{row.place}: {row.instance_id!r} has no ISO date in 'created_at' or 'meta.date': "
        "add one, leave the task out, or give --by repo"
    )


def read_date(columns: Mapping[str, Any], meta: Mapping[str, Any]) -> datetime | None:
    """Read a task's `created_at`, or a mined task's `meta.date`; None if neither is a date. The default zone is UTC."""
    return parse_date(columns.get("created_at")) or parse_date(meta.get("date"))


def parse_date(stated: Any) -> datetime | None:
    """Parse a date in ISO text; None for anything else, such as milliseconds since 1970."""
    try:
        date = datetime.fromisoformat(stated)
    except (TypeError, ValueError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
