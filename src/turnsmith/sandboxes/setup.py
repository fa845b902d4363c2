"""Preparation of a new sandbox for a task: the task's set-up commands, and a git history of one commit."""

import asyncio
from functools import lru_cache
from pathlib import Path

from turnsmith.errors import SandboxError
from turnsmith.git.diff import is_excluded
from turnsmith.git.layers import walk_merged
from turnsmith.git.one_commit import FIXED_FILES, make_history, read_tree_file
from turnsmith.sandboxes.base import Sandbox
from turnsmith.types import TaskTree

SETUP_TIMEOUT_S = 600.0
GIT = ".git/"
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
"""Script that removes every git repository and all bytecode from the working tree, then commits all files as one commit.

Files that git tracks although a .gitignore pattern matches them stay tracked.
"""


class SetupFailed(SandboxError):
    """Error raised if a set-up command or a patch of a task fails before its tests run."""


async def set_up(sandbox: Sandbox, tree: TaskTree) -> None:
    """Run the set-up commands of a task in a new sandbox and leave a history of one commit.

    Raises SetupFailed, SandboxError.
    """
    for command in tree.task.setup:
        result = await sandbox.exec(command, timeout_s=SETUP_TIMEOUT_S)
        if result.exit_code != 0:
            raise SetupFailed(f"set-up command {command!r} of {tree.instance_id} ended with {result.exit_code}")
    if tree.task.setup or not await asyncio.to_thread(has_one_commit, tree.layers):
        await write_one_commit(sandbox)


async def set_up_for_agent(sandbox: Sandbox, tree: TaskTree) -> None:
    """Set up the sandbox of an agent. The agent's patch will not contain changes made by the set-up commands.

    Raises SetupFailed, SandboxError.
    """
    await set_up(sandbox, tree)
    if tree.task.setup:
        await sandbox.settle()


async def write_one_commit(sandbox: Sandbox) -> None:
    """Replace the git history of the working tree by one commit. Raises SandboxError, for example if git is missing."""
    result = await sandbox.exec(WRITE_ONE_COMMIT, timeout_s=SETUP_TIMEOUT_S)
    if result.exit_code == 127:
        raise SandboxError("git did not answer in the sandbox: install git in the image or on this machine")
    if result.exit_code or result.timed_out:
        complaint = result.output.decode(errors="replace").strip().rpartition("\n")[2]
        raise SandboxError(
            f"the one-commit git history could not be written in the sandbox: {complaint or result.exit_code}"
        )


@lru_cache(maxsize=4096)
def has_one_commit(layers: tuple[Path, ...]) -> bool:
    """Return True if stacked folders hold exactly the one-commit history that `git.one_commit` writes, and no bytecode."""
    entries = {path: place for path, place in walk_merged(layers) if place.is_symlink() or not place.is_dir()}
    git = {path.removeprefix(GIT): place for path, place in entries.items() if path.startswith(GIT)}
    paths = [path for path in entries if not path.startswith(GIT)]
    if not _hold(git, FIXED_FILES) or any(is_excluded(name) for path in paths for name in path.split("/")):
        return False
    history = make_history({path: read_tree_file(entries[path]) for path in paths})
    return git.keys() == history.objects.keys() | history.files.keys() and _hold(git, history.files)


def _hold(git: dict[str, Path], files: dict[str, bytes]) -> bool:
    return all(path in git and git[path].read_bytes() == content for path, content in files.items())
