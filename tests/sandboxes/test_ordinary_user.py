"""The same promises when an ordinary user, not root, starts the sandboxes."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534
PROMISES = (
    "not escape and not podman and "
    "(tier or bomb or hog or disk or network or replace or may_not_read or by_every_name or killed or stdin "
    "or locked or interpreter or forked or (fork and not hundred))"
)
ATTEMPTS = "escape and not by_root"


def closed_ancestor(path):
    """The topmost folder above a path that others may not enter, or None."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & stat.S_IXOTH), None)


def open_to_all(paths):
    """Shell commands for a private mount namespace: closed folders are replaced by open ones that hold only these paths."""
    closed = {path: closed_ancestor(path) for path in paths}
    lines = ["set -e", "mount -t tmpfs -o mode=755 tmpfs /mnt"]
    for number, (path, folder) in enumerate(closed.items()):
        if folder:
            lines += [f"mkdir /mnt/{number}", f"mount --bind {path} /mnt/{number}"]
    lines += [
        f"mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in {folder for folder in closed.values() if folder}
    ]
    for number, (path, folder) in enumerate(closed.items()):
        if folder:
            lines += [f"mkdir -p {path}", f"mount --bind /mnt/{number} {path}"]
    return lines


def own_interpreter(folder):
    """The same, for an interpreter that belongs to that user, as one has it from pyenv, uv or conda."""
    python = Path(sys._base_executable).resolve()
    return [f"cp {python} {folder}/python", f"chown {NOBODY} {folder}/python", f"mount --bind {folder}/python {python}"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_ordinary_user_gets_the_same_promises(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("we are an ordinary user already: every other test has shown it")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let root make a mount namespace")
    os.chown(tmp_path, NOBODY, NOBODY)
    places = [Path(sys.base_prefix).resolve(), Path(sys.prefix), REPOSITORY, tmp_path]
    become = f'exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "$@"'
    prepare = "\n".join([*open_to_all(places), *own_interpreter(tmp_path), become])
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/t", "tests/sandboxes"]
    arguments += ["-k", f"({PROMISES}) or ({ATTEMPTS})"]
    command = ["unshare", "--mount", "--propagation=private", "sh", "-c", prepare, "sh", sys.executable, *arguments]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY / "src")}
    result = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert "skipped" not in result.stdout, result.stdout[-2000:]
