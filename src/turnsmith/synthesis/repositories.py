"""The layers of a task: one clean tree that all bugs of a repository share, and one small layer per bug.

The layer of a bug holds the changed files and a `.git` of one commit, the buggy tree. The clean text lies below it, where the
stacked tree hides it.
"""

import difflib
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from turnsmith.tasks.history import EXECUTABLE, SYMLINK, Tree, TreeFile, write_history


def to_tree(texts: Mapping[str, str]) -> dict[str, TreeFile]:
    """`{"src/a.py": "x = 1\\n"}` as a tree of regular files."""
    return {path: TreeFile(text.encode()) for path, text in texts.items()}


def write_shared_layer(folder: Path, tree: Tree) -> None:
    """Write the clean tree, without history."""
    for name, file in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == SYMLINK:
            path.symlink_to(file.content.decode())
        else:
            path.write_bytes(file.content)
            path.chmod(0o755 if file.mode == EXECUTABLE else 0o644)


def write_bug_layer(folder: Path, tree: Tree, changed: Mapping[str, bytes]) -> str:
    """Write what a bug changes and the history of the buggy tree; returns the base commit. Some 5 ms for 20 files."""
    buggy = {path: TreeFile(content, tree[path].mode) for path, content in changed.items()}
    write_shared_layer(folder, buggy)
    return write_history(folder / ".git", {**tree, **buggy})


def make_patch(path: str, before: str, after: str) -> str:
    """The git patch of one file, both texts given whole."""
    # `splitlines` would split at form feeds, too, which to git are characters like any other.
    lines = difflib.unified_diff([*StringIO(before)], [*StringIO(after)], f"a/{path}", f"b/{path}")
    body = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return f"diff --git a/{path} b/{path}\n{body}"
