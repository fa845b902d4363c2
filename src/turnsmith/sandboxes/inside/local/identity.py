"""Who a sandbox is on the host: an ordinary user is himself; root takes on a user that owns nothing."""

import os
from dataclasses import dataclass
from pathlib import Path

from turnsmith.sandboxes.inside import kernel

HOST_IDS = ["0", "0", "4294967295"]
"""The user map outside any user namespace: every user is himself."""

FREE_ID = 1_878_982_656
"""A user and group id that no Linux convention gives to anyone (systemd's table of ids ends its containers before it)."""


@dataclass(frozen=True)
class Identity:
    """User and group id on the host of all that runs in the sandboxes of one provider."""

    uid: int
    gid: int
    is_foreign: bool
    """True where it is not the one who asks, so that layers must be shown as owned by it."""


def choose_identity() -> Identity:
    is_host_root = os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == HOST_IDS
    return Identity(FREE_ID, FREE_ID, True) if is_host_root else Identity(os.geteuid(), os.getegid(), False)


def name_user(pid: int, uid: int, gid: int, identity: Identity) -> None:
    """In the new user namespace of a process: call the identity, its only user, by these numbers."""
    lines = {"setgroups": "deny", "uid_map": f"{uid} {identity.uid} 1", "gid_map": f"{gid} {identity.gid} 1"}
    for name, line in lines.items():
        Path(f"/proc/{pid}/{name}").write_text(line)


def fork_owned(namespaces: int, identity: Identity) -> int:
    """Fork into new namespaces that belong to the identity: what the kernel counts in them it charges to that user, not to us."""
    ours, pid = os.geteuid(), -1
    kernel.prctl(kernel.PR_SET_SECUREBITS, kernel.SECBIT_NO_SETUID_FIXUP)
    os.seteuid(identity.uid)
    try:
        pid = kernel.fork_into(namespaces)
    finally:
        if pid:
            os.seteuid(ours)
    return pid
