"""Process 1 lets go: it becomes as weak as the rest of its sandbox, yet out of their reach, and keeps nothing of its starter."""

import os
import signal

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.seccomp import deny_system_calls


def drop_privileges() -> None:
    """For this process and all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.forbid_new_privileges()
    deny_system_calls()
    kernel.drop_capabilities()
    kernel.set_dumpable(False)


def close_standard_streams() -> None:
    """The host's terminal, and the sockets and pipes of who started us, stay outside."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)
