"""The history of a git repository, read by git itself; nothing of it is checked out, and no hook of it runs."""

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
"""Commit, parents, date, message; then what git says of its files."""
RAW = re.compile(r":(\d{6}) (\d{6}) \S+ \S+ ([A-Z])\t(.*)")
COUNT = re.compile(r"(\d+|-)\t(\d+|-)\t(.*)")
MODES = {0o100644: REGULAR, 0o100755: EXECUTABLE, 0o120000: SYMLINK}
TIMEOUT_S = 600.0
MAX_TREE_BYTES = 500_000_000
ADDRESS = re.compile(r"[:/]([^:/]+)/([^/]+?)(?:\.git)?/?$")


@dataclass(frozen=True)
class FileChange:
    """What a commit does to one file."""

    path: str
    status: str
    """`A` added, `M` modified, `D` deleted, `T` of another type."""
    num_lines: int
    """Added and removed."""
    is_text: bool
    """Is it an ordinary file with lines, before and after?"""


@dataclass(frozen=True)
class Commit:
    """A commit against its first parent: for a merge that is all that was merged."""

    commit: str
    parent: str
    date: str
    """Of the commit, ISO 8601."""
    message: str
    files: tuple[FileChange, ...]


@dataclass(frozen=True)
class GitHistory:
    """A repository on this machine."""

    path: Path
    name: str
    """`owner/name` where its remote says so, else the name of its folder."""

    def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What git prints. Raises UsageError with its complaint."""
        command = ["git", "-c", "core.quotePath=false", "-C", str(self.path), *arguments]
        return run_program(command, f"git {arguments[0]} failed in {self.path}", stdin=stdin, timeout_s=TIMEOUT_S)


def open_history(path: Path, name: str = "") -> GitHistory:
    """Open a repository. Raises UsageError where there is no whole history, or no git."""
    check_git()
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}: give a git checkout, or a bare repository")
    history = GitHistory(path, path.name)
    try:
        is_shallow = history.git("rev-parse", "--is-shallow-repository").strip() == b"true"
        history.git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except UsageError as error:
        raise UsageError(f"{path} is no git repository with a commit at HEAD: {error}") from None
    if is_shallow:
        raise UsageError(
            f"{path} is a shallow clone, without the commits that tasks are made of: git fetch --unshallow"
        )
    return GitHistory(path, name or _find_name(history))


def _find_name(history: GitHistory) -> str:
    try:
        address = history.git("config", "--get", "remote.origin.url").decode(errors="replace").strip()
    except UsageError:
        address = ""
    found = ADDRESS.search(address)
    return f"{found[1]}/{found[2]}" if found else history.path.resolve().name.removesuffix(".git")


def read_commits(history: GitHistory, revision: str = "HEAD") -> Iterator[Commit]:
    """The commits of the main line, the newest first, each against its first parent; the first of all is left out."""
    options = ["--first-parent", "--diff-merges=first-parent", "--no-renames", "--raw", "--numstat", "--no-ext-diff"]
    text = history.git("log", *options, f"--format={FORMAT}", revision, "--").decode(errors="replace")
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
    """The files of a commit."""

    tree: dict[str, TreeFile]
    absent: tuple[str, ...]
    """Paths whose content the repository lacks, as a partial clone does with large files."""


def read_snapshot(history: GitHistory, commit: str) -> Snapshot:
    """Every file of a commit that is here; submodules are left out. Raises UsageError where it is too much for a task."""
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
    """The patch of a commit to some of its files; empty for none."""
    if not paths:
        return ""
    options = ["--no-renames", "--no-ext-diff", "--no-color", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"]
    literal = [f":(literal,top){path}" for path in paths]
    return history.git("diff", *options, commit.parent, commit.commit, "--", *literal).decode(errors="surrogateescape")


def read_merged_messages(history: GitHistory, commit: Commit) -> str:
    """What the commits say that a merge has brought, the oldest first; of an ordinary commit its own message."""
    options = ["--no-merges", "--reverse", "--format=%B"]
    return history.git("log", *options, f"{commit.parent}..{commit.commit}", "--").decode(errors="replace").strip()


def find_date(history: GitHistory, commit: str) -> str:
    """Of a commit, ISO 8601. Raises UsageError."""
    return (
        history.git("show", "--no-patch", "--format=%cI", "--end-of-options", f"{commit}^{{commit}}").decode().strip()
    )


def find_version(history: GitHistory, commit: str) -> str:
    """The last version tag before a commit, for what asks git for its version; `0` where there is none."""
    try:
        tag = history.git("describe", "--tags", "--abbrev=0", "--match=*[0-9].[0-9]*", commit).decode().strip()
    except UsageError:
        return "0"
    found = re.search(r"\d+(\.\d+)+", tag)
    return found[0] if found else "0"
