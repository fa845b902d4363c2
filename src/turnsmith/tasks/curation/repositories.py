"""Which repository a row is of, whatever the set calls it: forks, mirrors and releases of one have one name. And which task."""

import re
from typing import Any, TypeGuard

from turnsmith.tasks.curation.rows import TaskRow

MIRROR = re.compile(r"^[^/]+__(?P<name>.+?)(?:\.[0-9a-f]{7,40})?$")
"""SWE-smith's: `swesmith/owner__name.0123abcd`."""
RELEASE = re.compile(r"-v?\d+(?:\.\w+)*$")
"""Of a package's source: `toolz-1.0.0`."""
COMMIT = re.compile(r"[0-9a-f]{40}")


def normalise_repository(name: str) -> str:
    """`https://github.com/Owner/My_Name.git`, `other/my-name`, `x/owner__my-name.0123abcd`, `my_name-1.0` → `my-name`."""
    last = name.strip().rstrip("/").removesuffix(".git").rpartition("/")[2]
    mirrored = MIRROR.match(last)
    bare = RELEASE.sub("", mirrored["name"] if mirrored else last)
    return re.sub(r"[-_.]+", "-", bare.lower())


def name_repository(row: TaskRow) -> str:
    """The normalised name; empty where the row has none."""
    return normalise_repository(row.text("repo") or "")


def find_commits(row: TaskRow) -> list[str]:
    """Whole hashes of its history, which forks share under any name.

    The base commit of a mined task is made for its layers: the history has its parent and the commit itself.
    """
    return [
        commit
        for commit in (row.text("base_commit"), row.meta.get("parent"), row.meta.get("commit"))
        if is_hash(commit)
    ]


def is_hash(commit: Any) -> TypeGuard[str]:
    """Is it a whole hash, and none of zeros alone?"""
    return isinstance(commit, str) and COMMIT.fullmatch(commit) is not None and commit.strip("0") != ""


def identify(row: TaskRow) -> list[str]:
    """What no other task has: the id, and of a mined task the commit that it was made of."""
    commit = row.meta.get("commit") if row.meta.get("kind") == "mined" else None
    return [row.instance_id, *([commit] if is_hash(commit) and commit != row.instance_id else [])]
