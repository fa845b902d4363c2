"""Terminal of the user who starts a run: sandboxed code must not type into it."""

import os
import pty
import subprocess
import sys
import textwrap
from pathlib import Path

SCRIPT = """
import asyncio, fcntl, os, sys, termios
from pathlib import Path
from turnsmith.config import SandboxConfig
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxSpec

folder = Path(sys.argv[1])
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.close(os.open("/dev/tty", os.O_RDWR))  # there is one

INSIDE = '''
import contextlib, fcntl, os, termios
with contextlib.suppress(OSError):
    print("opened", os.open("/dev/tty", os.O_RDWR))
for fd in range(1024):
    for request, argument in ((termios.TIOCSCTTY, 1), (termios.TIOCSTI, b"x"), (0x541C, bytes([2]) + bytes(20))):
        with contextlib.suppress(OSError):
            fcntl.ioctl(fd, request, argument)
            print("done", fd, request)
    with contextlib.suppress(OSError):
        print("terminal", os.ttyname(fd))
print("end", open("/proc/self/stat").read().split()[6])
'''

async def main():
    provider = make_provider(SandboxConfig())
    sandbox = await provider.start(SandboxSpec((folder / "tree",)))
    result = await sandbox.exec("python -", stdin=INSIDE.encode(), timeout_s=30)
    (folder / "seen").write_bytes(result.output)
    await provider.close()

asyncio.run(main())
"""


def test_nothing_can_be_typed_into_the_terminal_of_the_host(tmp_path):
    (tmp_path / "tree").mkdir()
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path)]
    host = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, close_fds=True)
    os.close(theirs)
    typed = read_all(ours)
    assert host.wait() == 0, typed
    assert Path(tmp_path, "seen").read_text() == "end 0\n"
    assert typed == b""


def read_all(terminal):
    """Return the terminal's output until the other end is closed."""
    content = b""
    try:
        while chunk := os.read(terminal, 4096):
            content += chunk
    except OSError:  # that is how a terminal ends
        pass
    os.close(terminal)
    return content
