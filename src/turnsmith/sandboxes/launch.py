"""Starting what runs on the sandbox's side, and the limits that it is given."""

import subprocess
import sys
from pathlib import Path

import turnsmith
from turnsmith.config import SandboxConfig
from turnsmith.sandboxes.inside.toolbox import INTERPRETER
from turnsmith.sandboxes.inside.wire import Limits


def to_limits(config: SandboxConfig) -> Limits:
    return Limits(
        memory_bytes=config.memory_mb << 20,
        num_processes=config.max_processes,
        disk_bytes=config.disk_mb << 20,
        output_bytes=config.max_output_bytes,
    )


def run_inside(module: str, stdin: int, *arguments: str, capture: bool = False) -> subprocess.Popen[bytes]:
    """Start a module of `inside` on the bare interpreter: no site packages, a session of its own.

    Our own path is neither an argument nor a variable, which show in /proc. The variables are those of every command in a
    sandbox that an interpreter reads once, at its start.
    """
    code = (
        "import os, sys; sys.path.append(os.getcwd()); os.chdir('/'); "
        f"from turnsmith.sandboxes.inside.{module} import main; main()"
    )
    python = sys._base_executable  # type: ignore[attr-defined]
    return subprocess.Popen(
        [python, "-S", "-P", "-c", code, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE if capture else None,
        env=INTERPRETER,
        cwd=Path(turnsmith.__file__).parent.parent,
        start_new_session=True,
    )
