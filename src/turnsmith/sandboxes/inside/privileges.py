"""Process 1 lets go: it becomes as weak as the rest of its sandbox, yet out of their reach, and keeps nothing of its starter."""

import os
import signal

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.seccomp import deny_system_calls


def drop_privileges() -> None:
    """For this process and all that it starts; the host's terminal, sockets and pipes stay outside."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    deny_system_calls()
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # nobody of our user may trace us, nor open our files under /proc
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)
