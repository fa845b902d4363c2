"""Trees of git, and results of `git apply`."""

import os
import stat
import subprocess
from pathlib import Path

from turnsmith.git.layers import copy_merged


def rebuild(layers, patch, target):
    """Return the base with the patch applied strictly by git."""
    copy_merged(layers, target)
    if patch:
        command = ["git", "apply", "--whitespace=nowarn", "-"]
        clean = {"PATH": os.environ["PATH"], "GIT_DIR": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nowhere"}
        subprocess.run(command, input=patch.encode(), cwd=target, env=clean, check=True, capture_output=True)


def files_of(folder):
    """Return all files that a patch can express: path → (kind and execute bit, content)."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            found[os.fsencode(path.relative_to(folder))] = ("link", path.readlink())
        elif stat.S_ISREG(status.st_mode):
            found[os.fsencode(path.relative_to(folder))] = (bool(status.st_mode & 0o100), path.read_bytes())
    return found
