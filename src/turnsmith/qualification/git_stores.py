"""What the `.git` of a tree holds that its base commit does not reach.

The store belongs to whoever made the layers. Its objects are read by the host's git from a repository of our own, in which they
are links, so that no configuration, hook, alternate or replacement of theirs takes part.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from turnsmith.errors import TurnsmithError
from turnsmith.qualification.record import Leak, LeakKind

STORE = ".git/"
OBJECTS = ".git/objects/"
OTHER_STORES = (".git/modules/", ".git/worktrees/")
ALTERNATES = (".git/objects/info/alternates", ".git/objects/info/http-alternates")
OBJECT_FILE = re.compile(r"[0-9a-f]{2}/[0-9a-f]{38}|pack/pack-[0-9a-f]+\.(pack|idx)")
ID = re.compile(rb"\b[0-9a-f]{40}\b")
NOBODY = "0" * 40
REMOTE = re.compile(rb'^\s*\[remote "(.*)"\]', re.MULTILINE)
BINARY = {".git/index"}
"""Files of git's that hold no ids as text."""


class StoreUnreadable(TurnsmithError):
    """git cannot read a store, so nothing can be proved about it."""


@dataclass(frozen=True)
class Objects:
    """The objects of a store, in short."""

    kinds: dict[str, str]
    """Id → `blob`, `tree`, `commit` or `tag`; all there are."""
    reached: frozenset[str]
    """Those of the base commit's history, and tags of it."""
    base_files: dict[str, str]
    """Path → blob, of the base commit's tree."""

    @property
    def unreached(self) -> list[str]:
        return [name for name in self.kinds if name not in self.reached]


@contextmanager
def opened(files: Mapping[str, Path]) -> Iterator[Path]:
    """A bare repository of our own whose objects are those of the tree."""
    with tempfile.TemporaryDirectory(prefix="turnsmith-objects-") as folder:
        repository = Path(folder)
        for name in ("objects/pack", "refs"):
            (repository / name).mkdir(parents=True)
        (repository / "HEAD").write_text("ref: refs/heads/none\n")
        for path, file in files.items():
            if path.startswith(OBJECTS) and OBJECT_FILE.fullmatch(path.removeprefix(OBJECTS)):
                link = repository / path.removeprefix(STORE)
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(file)
        if ".git/shallow" in files:
            (repository / "shallow").symlink_to(files[".git/shallow"])
        yield repository


def list_objects(repository: Path, base: str) -> Objects:
    """All objects, and those that the base commit reaches. Raises StoreUnreadable."""
    lines = run_git(repository, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    kinds = dict(line.split(" ") for line in lines.decode().splitlines())
    if kinds.get(base) != "commit":
        return Objects(kinds, frozenset(), {})
    listed = run_git(repository, "rev-list", "--objects", "--missing=allow-any", base)
    reached = {line[:40] for line in listed.decode(errors="replace").splitlines()}
    tags = [name for name, kind in kinds.items() if kind == "tag"]
    reached |= {tag for tag, target in _peel(repository, tags).items() if target in reached}
    return Objects(kinds, frozenset(reached), _list_files(repository, base))


def _peel(repository: Path, tags: list[str]) -> dict[str, str]:
    """What each annotated tag speaks of in the end."""
    asked = "".join(f"{tag}^{{}}\n" for tag in tags).encode()
    answers = run_git(repository, "cat-file", "--batch-check=%(objectname)", stdin=asked) if tags else b""
    return dict(zip(tags, answers.decode().splitlines(), strict=True))


def _list_files(repository: Path, base: str) -> dict[str, str]:
    """Path → blob, of a commit."""
    entries = run_git(repository, "ls-tree", "-r", "-z", "--full-tree", base).split(b"\0")
    split = (entry.partition(b"\t") for entry in entries if entry)
    return {os.fsdecode(path): head.split(b" ")[2].decode() for head, _, path in split}


def read_objects(repository: Path) -> Iterator[tuple[str, str, bytes]]:
    """Id, kind and content of every object but trees, decompressed. Raises StoreUnreadable."""
    arguments = ("cat-file", "--batch-all-objects", "--batch", "--unordered", "--buffer")
    with tempfile.TemporaryFile() as complaint, _git(repository, *arguments, complaint=complaint) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdin.close()
        yield from _split_objects(process.stdout)
        if process.wait():
            complaint.seek(0)
            raise StoreUnreadable(_explain(arguments, complaint.read()))


def _split_objects(stream: IO[bytes]) -> Iterator[tuple[str, str, bytes]]:
    """Read what `cat-file --batch` writes, as far as it goes. Raises StoreUnreadable."""
    while header := stream.readline().split():
        if len(header) != 3:
            raise StoreUnreadable(f"git cannot read an object: {b' '.join(header).decode(errors='replace')}")
        name, kind, size = (word.decode() for word in header)
        content = stream.read(int(size) + 1)
        if len(content) <= int(size):
            return  # git has died, and says why
        if kind != "tree":
            yield name, kind, content[:-1]


def find_history_leaks(files: Mapping[str, Path], objects: Objects, base: str) -> Iterator[Leak]:
    """What is there that the base commit does not reach, however it is called."""
    yield from find_other_stores(files)
    if not objects.kinds:
        return
    if base not in objects.reached:
        yield Leak(kind=LeakKind.OBJECTS, where=OBJECTS, what=f"the base commit {base} is not among the objects")
        return
    if objects.unreached:
        yield Leak(kind=LeakKind.OBJECTS, where=OBJECTS, what=_describe(objects))
    for path, file in sorted(files.items()):
        if path.startswith(STORE) and not path.startswith(OBJECTS) and path not in BINARY:
            yield from find_names(path, file.read_bytes(), objects.reached)


def find_other_stores(files: Mapping[str, Path]) -> Iterator[Leak]:
    """Repositories besides the one at the top, and ways to them."""
    for path in ALTERNATES:
        if path in files:
            yield Leak(kind=LeakKind.STORE, where=path, what="objects of another store")
    if ".git" in files:
        yield Leak(kind=LeakKind.STORE, where=".git", what="the history lies elsewhere")
    known = [other for other in OTHER_STORES if any(path.startswith(other) for path in files)]
    for where in [*find_inner_stores(files), *known]:
        yield Leak(kind=LeakKind.STORE, where=where, what="another repository, of which the base commit knows nothing")


def find_inner_stores(files: Iterable[str]) -> list[str]:
    """Every `.git` below the top, folder or file."""
    inside = (path.partition("/.git/")[0] for path in files if "/.git/" in path)
    return sorted({f"{folder}/.git" for folder in inside} | {path for path in files if path.endswith("/.git")})


def find_names(path: str, content: bytes, reached: frozenset[str]) -> Iterator[Leak]:
    """Commits that a file of git's names and the base does not reach, and remotes in a configuration."""
    names = [name for name in dict.fromkeys(match.decode() for match in ID.findall(content)) if name != NOBODY]
    strange = [name for name in names if name not in reached]
    if strange:
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        yield Leak(kind=LeakKind.REFERENCE, where=path, what=f"names {strange[0]}{more}, which the base does not reach")
    remotes = REMOTE.findall(content) if path == ".git/config" else []
    for remote in remotes:
        yield Leak(kind=LeakKind.REMOTE, where=path, what=f"remote {remote.decode(errors='replace')!r}")


def _describe(objects: Objects) -> str:
    first = min(objects.unreached, key=lambda name: (objects.kinds[name] != "commit", name))
    return f"{len(objects.unreached)} that the base does not reach, e.g. {objects.kinds[first]} {first}"


def run_git(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What the host's git prints. Raises StoreUnreadable."""
    with _git(repository, *arguments) as process:
        output, complaint = process.communicate(stdin)
    if process.returncode:
        raise StoreUnreadable(_explain(arguments, complaint))
    return output


def _explain(arguments: Sequence[str], complaint: bytes) -> str:
    """git's last words."""
    words = complaint.decode(errors="replace").strip().splitlines() or ["it ended without a word"]
    return f"git {arguments[0]}: {words[-1]}"


def _git(repository: Path, *arguments: str, complaint: IO[bytes] | int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Start git in a repository of our own, deaf to the configuration of this machine; what it complains of has a place."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_DIR": str(repository),
        "HOME": str(repository),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "LC_ALL": "C",
    }
    command = ["git", "-c", "core.commitGraph=false", "-c", "core.multiPackIndex=false", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, cwd=repository, stdin=pipe, stdout=pipe, stderr=complaint)
