"""Who a sandbox is on the host: an ordinary user is himself; root takes on a user that owns nothing."""

import os
import signal
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
    is_own: bool
    """True where root gave up its own identity, so that layers must be shown as owned by this one."""


def choose_identity() -> Identity:
    is_host_root = os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split() == HOST_IDS
    return Identity(FREE_ID, FREE_ID, True) if is_host_root else Identity(os.geteuid(), os.getegid(), False)


def become(identity: Identity) -> None:
    """Change to the identity, keeping the capabilities that the coming user namespace needs."""
    kernel.keep_capabilities()
    os.setgroups([])
    os.setresgid(identity.gid, identity.gid, identity.gid)
    os.setresuid(identity.uid, identity.uid, identity.uid)
    kernel.set_dumpable(True)  # the change of user has taken our files under /proc from us


def map_to(uid: int, gid: int, identity: Identity) -> None:
    """In a new user namespace: call our only user `uid` and our only group `gid`."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {identity.uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {identity.gid} 1")


def open_ownership_map(owner_uid: int, owner_gid: int, identity: Identity) -> int:
    """A user namespace, as a descriptor, that shows files of the owner as files of the identity (for mounts only)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        kernel.unshare(kernel.CLONE_NEWUSER)
        os.write(writing, b".")
        signal.pause()
    os.read(reading, 1)
    try:
        Path(f"/proc/{pid}/uid_map").write_text(f"{owner_uid} {identity.uid} 1")
        Path(f"/proc/{pid}/gid_map").write_text(f"{owner_gid} {identity.gid} 1")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(reading)
        os.close(writing)
