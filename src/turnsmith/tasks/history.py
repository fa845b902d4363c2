"""A git history of exactly one commit, written as files: no process, no template, no hook, and nothing but the given tree.

The commit id is a function of the tree alone, so a task can be made twice and compare equal.
"""

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REGULAR, EXECUTABLE, SYMLINK, DIRECTORY = 0o100644, 0o100755, 0o120000, 0o040000
AUTHOR = b"Turnsmith <turnsmith@localhost> 946684800 +0000"
CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
EXCLUDE = "__pycache__/\n*.pyc\n.pytest_cache/\n"
"""What running the tests leaves behind is no change."""


@dataclass(frozen=True)
class File:
    """A file of a tree; the content of a symbolic link is its target."""

    content: bytes
    mode: int = REGULAR


Tree = Mapping[str, File]
"""Files by their path from the root, with `/`."""


def write_history(git: Path, tree: Tree, message: str = "Initial commit") -> str:
    """Write a `.git` folder whose only commit holds `tree`; returns the commit id (40 hexadecimal digits)."""
    for folder in ("info", "objects/pack", "refs/heads", "refs/tags"):
        (git / folder).mkdir(parents=True)
    blobs = {path: _write_object(git, b"blob", file.content) for path, file in tree.items()}
    root = _write_trees(git, tree, blobs)
    body = b"tree %s\nauthor %s\ncommitter %s\n\n%s\n" % (root.hex().encode(), AUTHOR, AUTHOR, message.encode())
    commit = _write_object(git, b"commit", body).hex()
    (git / "index").write_bytes(_index(tree, blobs))
    (git / "config").write_text(CONFIG)
    (git / "info/exclude").write_text(EXCLUDE)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs/heads/main").write_text(commit + "\n")
    return commit


def _write_object(git: Path, kind: bytes, body: bytes) -> bytes:
    """Write a loose object; returns its 20-byte id."""
    data = b"%s %d\0%s" % (kind, len(body), body)
    name = hashlib.sha1(data).hexdigest()
    path = git / "objects" / name[:2] / name[2:]
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(data, 1))
    return bytes.fromhex(name)


def _write_trees(git: Path, tree: Tree, blobs: Mapping[str, bytes]) -> bytes:
    """Write the tree object of each folder, deepest first; returns the id of the root."""
    folders: dict[str, dict[str, tuple[int, bytes]]] = {"": {}}
    for path, file in tree.items():
        parent, _, name = path.rpartition("/")
        _folder(folders, parent)[name] = (file.mode, blobs[path])
    for path in sorted(folders, key=_depth, reverse=True):
        node = _write_object(git, b"tree", _tree_body(folders[path]))
        if path:
            parent, _, name = path.rpartition("/")
            folders[parent][name] = (DIRECTORY, node)
    return node


def _folder(folders: dict[str, dict[str, tuple[int, bytes]]], path: str) -> dict[str, tuple[int, bytes]]:
    """The entries of a folder; it and its parents are made where they are missing."""
    if path not in folders:
        folders[path] = {}
        _folder(folders, path.rpartition("/")[0])
    return folders[path]


def _depth(path: str) -> int:
    return path.count("/") + bool(path)


def _tree_body(entries: Mapping[str, tuple[int, bytes]]) -> bytes:
    """git sorts the entries of a folder as if the names of sub-folders ended in `/`."""
    order = sorted(entries, key=lambda name: f"{name}/".encode() if entries[name][0] == DIRECTORY else name.encode())
    return b"".join(b"%o %s\0%s" % (entries[name][0], name.encode(), entries[name][1]) for name in order)


def _index(tree: Tree, blobs: Mapping[str, bytes]) -> bytes:
    """The index, version 2, with empty file times: git looks at the files themselves the first time."""
    data = b"DIRC" + (2).to_bytes(4, "big") + len(tree).to_bytes(4, "big")
    for path in sorted(tree, key=str.encode):
        name = path.encode()
        entry = bytes(24) + tree[path].mode.to_bytes(4, "big") + bytes(12) + blobs[path]
        entry += min(len(name), 0xFFF).to_bytes(2, "big") + name
        data += entry + bytes(8 - len(entry) % 8)
    return data + hashlib.sha1(data).digest()
