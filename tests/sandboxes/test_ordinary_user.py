"""Sandboxes started by an ordinary user instead of root."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.machine.ordinary_user import NOBODY, open_to_all

REPOSITORY = Path(__file__).parents[2]
PROMISES = (
    "not escape and not podman and "
    "(tier or bomb or hog or disk or network or replace or may_not_read or by_every_name or killed or stdin "
    "or locked or interpreter or forked or (fork and not hundred))"
)
ATTEMPTS = "escape and not by_root"


def own_interpreter(folder):
    """Return an interpreter that belongs to the user, as with pyenv, uv or conda."""
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
