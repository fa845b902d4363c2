"""Issue texts of mined tasks, taken from issues, pull requests and commit messages, never from the diff."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.io.files import parse_rows, read_text
from turnsmith.tasks.vagueness import find_vagueness

MERGED = re.compile(r"Merge (pull request #\d+ from \S+|(remote-tracking )?branch .*|in \S+ from .*)")
SQUASHED = re.compile(r" \(#\d+\)$")
TRAILER = re.compile(
    r"(Co-authored-by|Signed-off-by|Reviewed-by|Acked-by|Change-Id|Cherry-picked-from|See-also): .*", re.I
)
REFERENCE = re.compile(
    r"(?:\b(?P<word>fix(?:e[sd])?|clos(?:e[sd]?)|resolv(?:e[sd]?))\b:? +)?(?<![\w/.-])#(?P<number>\d+)", re.I
)
"""Pattern of a reference such as `fixes #7`. References to other repositories (`python/cpython#7`) do not match."""


@dataclass(frozen=True)
class Issue:
    """Issue text of a task, and where the text comes from."""

    text: str
    source: str
    """Kind of text: `issue`, `pull request` or `commit message`."""

    @property
    def is_vague(self) -> bool:
        return bool(find_vagueness(self.text))


@dataclass(frozen=True)
class Thread:
    """Issue or pull request in a file exported from GitHub."""

    number: int
    title: str
    body: str
    is_pull_request: bool


def read_export(path: Path) -> dict[int, Thread]:
    """Read issues and pull requests, by number, from a JSON or JSONL file with the fields of GitHub's API. Raises UsageError."""
    remedy = "give JSON or JSONL with number, title and body, as in GitHub's API"
    rows = parse_rows(read_text(path, "the issues", remedy), path)
    try:
        return {thread.number: thread for thread in (_read_thread(row) for _, row in rows)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not an export of issues ({type(error).__name__}: {error}): {remedy}") from None


def _read_thread(row: Mapping[str, Any]) -> Thread:
    is_pull_request = bool(row.get("pull_request") or row.get("is_pull_request") or row.get("merged_at"))
    return Thread(int(row["number"]), str(row["title"]), str(row.get("body") or ""), is_pull_request)


def find_issue(message: str, threads: Mapping[int, Thread]) -> Issue:
    """Find the issue text of a commit: an issue that the message closes, else one that the message names, else the message."""
    title = message.partition("\n")[0]
    named = [each for each in REFERENCE.finditer(message) if int(each["number"]) in threads]
    for reference in sorted(named, key=lambda each: (not each["word"], each.start() > len(title))):
        thread = threads[int(reference["number"])]
        text = f"{thread.title}\n\n{thread.body}".strip().replace("\r\n", "\n")
        return Issue(f"{text}\n", "pull request" if thread.is_pull_request else "issue")
    return Issue(f"{clean_message(message)}\n", "commit message")


def clean_message(message: str) -> str:
    """Remove text that tools add to a commit message: `Merge pull request #7 from a/b`, `(#7)`, trailers.

    The result may be empty.
    """
    lines = [SQUASHED.sub("", line.rstrip()) for line in message.splitlines()]
    kept = [line for line in lines if not MERGED.fullmatch(line) and not TRAILER.fullmatch(line.strip())]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
