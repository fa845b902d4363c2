"""Host user that owns the processes of sandboxes: the caller, or an unused id if the caller is root."""

import os
from dataclasses import dataclass
from pathlib import Path

from turnsmith.sandboxes.inside import kernel

HOST_IDS = ["0", "0", "4294967295"]
"""Fields of /proc/self/uid_map outside any user namespace. Root runs sandboxes under FREE_ID only there."""

FREE_ID = 1_878_982_656
"""User and group id of sandboxes started by root. No Linux convention assigns it (systemd's container range ends below)."""


@dataclass(frozen=True)
class Identity:
    """Host user and group ids of all processes in a provider's sandboxes."""

    uid: int
    gid: int
    is_foreign: bool
    """True if sandboxes run under another user than the caller. Mounted host files must then appear as that user's."""


def choose_identity() -> Identity:
    is_host_root = os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == HOST_IDS
    return Identity(FREE_ID, FREE_ID, True) if is_host_root else Identity(os.geteuid(), os.getegid(), False)


def map_user(pid: int, uid: int, gid: int, identity: Identity) -> None:
    """Map a user id and a group id in a process's user namespace to the host user of sandboxes."""
    lines = {"setgroups": "deny", "uid_map": f"{uid} {identity.uid} 1", "gid_map": f"{gid} {identity.gid} 1"}
    for name, line in lines.items():
        Path(f"/proc/{pid}/{name}").write_text(line)


def fork_owned(namespaces: int, identity: Identity) -> int:
    """Fork into namespaces owned by the host user of sandboxes, to whom the kernel then charges the sandbox's resources."""
    ours, pid = os.geteuid(), -1
    kernel.prctl(kernel.PR_SET_SECUREBITS, kernel.SECBIT_NO_SETUID_FIXUP)
    os.seteuid(identity.uid)
    try:
        pid = kernel.fork_into(namespaces)
    finally:
        if pid:
            os.seteuid(ours)
    return pid
