"""Identity of tasks and repositories. Forks, mirrors and releases of a repository get the same normalised name."""

import re
from typing import Any, TypeGuard

from turnsmith.curation.rows import TaskRow

MIRROR = re.compile(r"^[^/]+__(?P<name>.+?)(?:\.[0-9a-f]{7,40})?$")
"""Pattern of names of SWE-smith's mirrors, `owner__name.0123abcd`; only its `name` is compared with other repositories."""
RELEASE = re.compile(r"-v?\d+(?:\.\w+)*$")
"""Pattern of the version in the name of a released package, `toolz-1.0.0`; it is removed before names are compared."""
COMMIT = re.compile(r"[0-9a-f]{40}")


def normalise_repository(name: str) -> str:
    """Normalise a repository name: `https://github.com/Owner/My_Name.git`, `x/owner__my-name.0123abcd`,
    `my_name-1.0` → `my-name`.
    """
    last = name.strip().rstrip("/").removesuffix(".git").rpartition("/")[2]
    mirrored = MIRROR.match(last)
    bare = RELEASE.sub("", mirrored["name"] if mirrored else last)
    return re.sub(r"[-_.]+", "-", bare.lower())


def name_repository(row: TaskRow) -> str:
    """Return the normalised repository name of a row; empty if it has none."""
    return normalise_repository(row.text("repo") or "")


def find_commits(row: TaskRow) -> list[str]:
    """List the full commit hashes of a row: base commit and, if it was mined, the commit that it came from, with its parent."""
    return [
        commit
        for commit in (row.text("base_commit"), row.meta.get("parent"), row.meta.get("commit"))
        if is_hash(commit)
    ]


def is_hash(commit: Any) -> TypeGuard[str]:
    """Return True for a full, non-zero commit hash."""
    return isinstance(commit, str) and COMMIT.fullmatch(commit) is not None and commit.strip("0") != ""


def identify(row: TaskRow) -> list[str]:
    """Return the values that identify a task: its id and, if it was mined, the commit that it came from."""
    commit = row.meta.get("commit") if row.meta.get("kind") == "mined" else None
    return [row.instance_id, *([commit] if is_hash(commit) and commit != row.instance_id else [])]
