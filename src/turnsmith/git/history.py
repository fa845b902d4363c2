"""Reader of git histories. It runs git, but checks nothing out and runs no hooks."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.git.diff import check_git
from turnsmith.git.one_commit import EXECUTABLE, REGULAR, SYMLINK, TreeFile
from turnsmith.io.programs import run_program

RECORD, FIELD = "\x01", "\x02"
FORMAT = f"{RECORD}%H{FIELD}%P{FIELD}%cI{FIELD}%B{FIELD}"
"""Output format of `git log`: commit, parents, date, message; git adds the changed files."""
RAW = re.compile(r":(\d{6}) (\d{6}) \S+ \S+ ([A-Z])\t(.*)")
"""Pattern of a line of `git log --raw`: old mode, new mode, status, path."""
COUNT = re.compile(r"(\d+|-)\t(\d+|-)\t(.*)")
"""Pattern of a line of `git log --numstat`: added lines, removed lines, path."""
MODES = {0o100644: REGULAR, 0o100755: EXECUTABLE, 0o120000: SYMLINK}
TIMEOUT_S = 600.0
MAX_TREE_BYTES = 500_000_000
ADDRESS = re.compile(r"[:/]([^:/]+)/([^/]+?)(?:\.git)?/?$")
"""Pattern of owner and name at the end of a remote's URL."""


@dataclass(frozen=True)
class FileChange:
    """Change of one file by a commit."""

    path: str
    status: str
    """`A` for an added file, `M` modified, `D` deleted, `T` changed type (e.g. to a symlink)."""
    num_lines: int
    """Number of added and removed lines."""
    is_text: bool
    """True if the file is a regular text file both before and after the commit."""


@dataclass(frozen=True)
class Commit:
    """Commit with its changes against its first parent. So a merge has the changes of all commits that it merged."""

    commit: str
    parent: str
    date: str
    """Commit date, ISO 8601."""
    message: str
    files: tuple[FileChange, ...]


@dataclass(frozen=True)
class GitHistory:
    """Git repository on this machine."""

    path: Path
    name: str
    """`owner/name` from the remote's URL, or else the folder's name."""

    def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run git and return its stdout. Raises UsageError with the last line of stderr."""
        command = ["git", "-c", "core.quotePath=false", "-C", str(self.path), *arguments]
        return run_program(command, f"git {arguments[0]} failed in {self.path}", stdin=stdin, timeout_s=TIMEOUT_S)


def open_history(path: Path, name: str = "") -> GitHistory:
    """Open the repository whose top folder is `path`. Raises UsageError if it has no commit or is a shallow clone."""
    check_git()
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}: give a git checkout, or a bare repository")
    history = GitHistory(path, path.name)
    try:
        is_shallow = history.git("rev-parse", "--is-shallow-repository").strip() == b"true"
        is_below_top = bool(history.git("rev-parse", "--show-prefix").strip())
    except UsageError as error:
        raise UsageError(f"{path} is not a git repository ({error}): give a checkout or a bare repository") from None
    if is_below_top:
        top = os.fsdecode(history.git("rev-parse", "--show-toplevel")).strip()
        raise UsageError(f"{path} is a folder inside the repository {top}: give {top}, or another repository")
    try:
        history.git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except UsageError:
        raise UsageError(f"{path} is a git repository without a commit at HEAD: commit something there") from None
    if is_shallow:
        raise UsageError(f"{path} is a shallow clone, which lacks older commits: run git fetch --unshallow there")
    return GitHistory(path, name or _find_name(history))


def _find_name(history: GitHistory) -> str:
    try:
        address = history.git("config", "--get", "remote.origin.url").decode(errors="replace").strip()
    except UsageError:
        address = ""
    found = ADDRESS.search(address)
    return f"{found[1]}/{found[2]}" if found else history.path.resolve().name.removesuffix(".git")


def read_commits(history: GitHistory, revision: str = "HEAD") -> Iterator[Commit]:
    """Yield the commits of the first-parent line, newest first, without the root commit."""
    options = ["--first-parent", "--diff-merges=first-parent", "--no-renames", "--raw", "--numstat", "--no-ext-diff"]
    try:
        text = history.git("log", *options, f"--format={FORMAT}", revision, "--").decode(errors="replace")
    except UsageError as error:
        raise UsageError(f"--revision {revision}: {error}: give a commit, a branch or a tag") from None
    for record in text.split(RECORD)[1:]:
        commit, parents, date, message, rest = record.split(FIELD, 4)
        if parents:
            files = tuple(_read_files(rest.split("\n")))
            yield Commit(commit, parents.split()[0], date, message.strip(), files)


def _read_files(lines: Sequence[str]) -> Iterator[FileChange]:
    counts = {found[3]: (found[1], found[2]) for line in lines if (found := COUNT.fullmatch(line))}
    for found in filter(None, map(RAW.fullmatch, lines)):
        added, removed = counts.get(found[4], ("-", "-"))
        is_text = "-" not in (added, removed) and {found[1], found[2]} <= {"000000", "100644", "100755"}
        yield FileChange(found[4], found[3], int(added) + int(removed) if is_text else 0, is_text)


@dataclass(frozen=True)
class Snapshot:
    """Files of a commit."""

    tree: dict[str, TreeFile]
    absent: tuple[str, ...]
    """Paths whose content is missing, e.g. large files of a partial clone."""


def read_snapshot(history: GitHistory, commit: str) -> Snapshot:
    """Read the files of a commit, without submodules. Raises UsageError if the tree is too large."""
    entries, absent = [], []
    for entry in history.git("ls-tree", "-r", "-z", "--full-tree", "--long", commit).split(b"\0")[:-1]:
        facts, _, name = entry.partition(b"\t")
        mode, kind, blob, size = facts.split()
        path = name.decode(errors="surrogateescape")
        if kind == b"blob" and size.isdigit():
            entries.append((path, int(mode, 8), blob, int(size)))
        elif kind == b"blob":
            absent.append(path)
    if sum(size for *_, size in entries) > MAX_TREE_BYTES:
        raise UsageError(f"the tree of {commit[:8]} holds more than {MAX_TREE_BYTES:,} bytes: too big for a task")
    contents = _read_blobs(history, [blob for _, _, blob, _ in entries])
    tree = {path: TreeFile(contents[blob], MODES.get(mode, REGULAR)) for path, mode, blob, _ in entries}
    return Snapshot(tree, tuple(absent))


def _read_blobs(history: GitHistory, blobs: Sequence[bytes]) -> dict[bytes, bytes]:
    answer = history.git("cat-file", "--batch", stdin=b"".join(blob + b"\n" for blob in dict.fromkeys(blobs)))
    contents, place = {}, 0
    while place < len(answer):
        end = answer.index(b"\n", place)
        blob, _, size = answer[place:end].split()
        contents[blob] = answer[end + 1 : end + 1 + int(size)]
        place = end + 2 + int(size)
    return contents


def make_diff(history: GitHistory, commit: Commit, paths: Sequence[str]) -> str:
    """Return the patch of a commit, limited to some paths; empty if `paths` is empty."""
    if not paths:
        return ""
    options = ["--no-renames", "--no-ext-diff", "--no-color", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"]
    literal = [f":(literal,top){path}" for path in paths]
    return history.git("diff", *options, commit.parent, commit.commit, "--", *literal).decode(errors="surrogateescape")


def read_merged_messages(history: GitHistory, commit: Commit) -> str:
    """Return the messages of the commits that a merge merged, oldest first; for any other commit, its own message."""
    options = ["--no-merges", "--reverse", "--format=%B"]
    return history.git("log", *options, f"{commit.parent}..{commit.commit}", "--").decode(errors="replace").strip()


def find_date(history: GitHistory, commit: str) -> str:
    """Return the date of a commit, ISO 8601. Raises UsageError."""
    options = ["--no-patch", "--format=%cI", "--end-of-options"]
    return history.git("show", *options, f"{commit}^{{commit}}").decode().strip()


def find_version(history: GitHistory, commit: str) -> str:
    """Return the version in the nearest version tag of a commit or its ancestors; `0` if none. Some builds need a version."""
    try:
        tag = history.git("describe", "--tags", "--abbrev=0", "--match=*[0-9].[0-9]*", commit).decode().strip()
    except UsageError:
        return "0"
    found = re.search(r"\d+(\.\d+)+", tag)
    return found[0] if found else "0"
