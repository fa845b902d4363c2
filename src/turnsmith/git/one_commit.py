"""Writer of `.git` folders with exactly one commit, without running git: no templates, no hooks.

The commit id depends on the tree alone, so equal trees give equal ids.
"""

import hashlib
import os
import stat
import zlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

REGULAR, EXECUTABLE, SYMLINK, DIRECTORY = 0o100644, 0o100755, 0o120000, 0o040000
AUTHOR = b"Turnsmith <turnsmith@localhost> 946684800 +0000"
FIXED_FILES = {
    "HEAD": b"ref: refs/heads/main\n",
    "config": b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
    "info/exclude": b"__pycache__/\n*.pyc\n.pytest_cache/\n",
}
"""Files of every `.git` folder; `info/exclude` ignores leftovers of test runs."""


@dataclass(frozen=True)
class TreeFile:
    """File of a tree; a symlink's content is its target."""

    content: bytes
    mode: int = REGULAR


Tree = Mapping[str, TreeFile]
"""Files by path relative to the root, with `/` between components."""


@dataclass(frozen=True)
class GitFolder:
    """Content of a `.git` folder with one commit."""

    commit: str
    """Commit id, 40 hexadecimal digits."""
    objects: dict[str, bytes]
    """Path of a git object in the `.git` folder → its content before compression."""
    files: dict[str, bytes]
    """Path of any other file in the `.git` folder → its content."""


def read_entry(place: Path) -> tuple[int, bytes]:
    """Return mode and content of a path. The content of a symlink is its target; that of a folder is empty."""
    mode = place.lstat().st_mode
    if stat.S_ISLNK(mode):
        return mode, os.fsencode(place.readlink())
    return mode, place.read_bytes() if stat.S_ISREG(mode) else b""


def read_tree_file(place: Path) -> TreeFile:
    """Read a file or symlink as git stores it."""
    mode, content = read_entry(place)
    if stat.S_ISLNK(mode):
        return TreeFile(content, SYMLINK)
    return TreeFile(content, EXECUTABLE if mode & stat.S_IXUSR else REGULAR)


def make_history(tree: Tree) -> GitFolder:
    """Build the content of a `.git` folder whose only commit holds `tree`."""
    objects: dict[str, bytes] = {}
    blobs = {path: _add_object(objects, b"blob", file.content) for path, file in tree.items()}
    root = _add_tree(objects, {path: (file.mode, blobs[path]) for path, file in tree.items()}).hex().encode()
    body = b"tree %s\nauthor %s\ncommitter %s\n\nInitial commit\n" % (root, AUTHOR, AUTHOR)
    commit = _add_object(objects, b"commit", body).hex()
    files = {**FIXED_FILES, "refs/heads/main": f"{commit}\n".encode(), "index": _index(tree, blobs)}
    return GitFolder(commit, objects, files)


def write_history(git: Path, tree: Tree) -> str:
    """Write a `.git` folder whose only commit holds `tree`; return the commit id."""
    return write_folder(git, make_history(tree))


def write_folder(git: Path, history: GitFolder, left_out: Collection[str] = ()) -> str:
    """Write a `.git` folder to `git`, without the files whose paths below `git` are in `left_out`; return the commit id."""
    for folder in ("info", "objects/pack", "refs/heads", "refs/tags"):
        (git / folder).mkdir(parents=True)
    for path, data in history.objects.items():
        if path not in left_out:
            (git / path).parent.mkdir(exist_ok=True)
            (git / path).write_bytes(zlib.compress(data, 1))
    for path, content in history.files.items():
        if path not in left_out:
            (git / path).write_bytes(content)
    return history.commit


def _add_object(objects: dict[str, bytes], kind: bytes, body: bytes) -> bytes:
    """Add a loose object to `objects`; return its 20-byte id."""
    data = b"%s %d\0%s" % (kind, len(body), body)
    digest = hashlib.sha1(data)
    name = digest.hexdigest()
    objects[f"objects/{name[:2]}/{name[2:]}"] = data
    return digest.digest()


def _add_tree(objects: dict[str, bytes], files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Add the tree objects of a folder and its subfolders, given each file's mode and blob; return the tree's id."""
    entries, folders = dict[str, tuple[int, bytes]](), defaultdict[str, dict[str, tuple[int, bytes]]](dict)
    for path, entry in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            folders[name][rest] = entry
        else:
            entries[name] = entry
    for name, below in folders.items():
        entries[f"{name}/"] = DIRECTORY, _add_tree(objects, below)
    # git sorts entries as if names of subfolders ended in `/`
    body = b""
    for name in sorted(entries, key=str.encode):
        mode, digest = entries[name]
        body += b"%o %s\0%s" % (mode, name.removesuffix("/").encode(), digest)
    return _add_object(objects, b"tree", body)


def _index(tree: Tree, blobs: Mapping[str, bytes]) -> bytes:
    """Build a git index (version 2) with file times of zero, so that git reads the files again on first use."""
    data = b"DIRC" + (2).to_bytes(4, "big") + len(tree).to_bytes(4, "big")
    for path in sorted(tree, key=str.encode):
        name = path.encode()
        entry = bytes(24) + tree[path].mode.to_bytes(4, "big") + bytes(12) + blobs[path]
        entry += min(len(name), 0xFFF).to_bytes(2, "big") + name
        data += entry + bytes(8 - len(entry) % 8)
    return data + hashlib.sha1(data).digest()
