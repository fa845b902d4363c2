"""One commit is all the history that a sandbox shows, whatever the layers or the image of a task hold."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from turnsmith.errors import SandboxError
from turnsmith.git.diff import is_excluded
from turnsmith.git.layers import walk_merged
from turnsmith.git.one_commit import FIXED_FILES, make_history, read_tree_file
from turnsmith.sandboxes.base import Sandbox

GIT = ".git/"
TIMEOUT_S = 600.0
WRITE_ONE_COMMIT = """
ignored=$(mktemp) || exit
git -c core.fsmonitor=false ls-files -z --cached --ignored --exclude-standard > "$ignored" 2> /dev/null || : > "$ignored"
find . '(' -name .git -o -name __pycache__ -o -name '*.pyc' -o -name .pytest_cache -o -name .hypothesis ')' \
    -prune -exec rm -rf -- {} + || exit
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME=/nonexistent
export GIT_AUTHOR_NAME=Turnsmith GIT_AUTHOR_EMAIL=turnsmith@localhost GIT_AUTHOR_DATE='946684800 +0000'
export GIT_COMMITTER_NAME=Turnsmith GIT_COMMITTER_EMAIL=turnsmith@localhost GIT_COMMITTER_DATE='946684800 +0000'
git() { command git -c safe.directory='*' -c core.autocrlf=false "$@"; }
git init --quiet --template= && git symbolic-ref HEAD refs/heads/main && mkdir -p .git/info &&
    printf '__pycache__/\\n*.pyc\\n.pytest_cache/\\n' > .git/info/exclude &&
    git add --all && git update-index -z --add --remove --stdin < "$ignored" &&
    git commit --quiet --allow-empty --message 'Initial commit' && rm -f -- "$ignored"
"""
"""Removes every repository in the tree, and bytecode, then commits what stands there; tracked files stay tracked if ignored."""


async def write_one_commit(sandbox: Sandbox) -> None:
    """Replace whatever history the working tree has. Raises SandboxError, also where the sandbox has no git."""
    result = await sandbox.exec(WRITE_ONE_COMMIT, timeout_s=TIMEOUT_S)
    if result.exit_code == 127:
        raise SandboxError("git did not answer in the sandbox: is it installed there?")
    if result.exit_code or result.timed_out:
        complaint = result.output.decode(errors="replace").strip().rpartition("\n")[2]
        raise SandboxError(f"a new history could not be written in the sandbox: {complaint or result.exit_code}")


@lru_cache(maxsize=4096)
def has_one_commit(layers: Sequence[Path]) -> bool:
    """Is the `.git` of the stacked layers the one that `git.one_commit` writes for their tree, and is there no bytecode?"""
    entries = {path: place for path, place in walk_merged(tuple(layers)) if place.is_symlink() or not place.is_dir()}
    git = {path.removeprefix(GIT): place for path, place in entries.items() if path.startswith(GIT)}
    paths = [path for path in entries if not path.startswith(GIT)]
    if not _hold(git, FIXED_FILES) or any(is_excluded(name) for path in paths for name in path.split("/")):
        return False
    history = make_history({path: read_tree_file(entries[path]) for path in paths})
    return git.keys() == history.objects.keys() | history.files.keys() and _hold(git, history.files)


def _hold(git: dict[str, Path], files: dict[str, bytes]) -> bool:
    return all(path in git and git[path].read_bytes() == content for path, content in files.items())
