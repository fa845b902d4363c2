"""Steps from a forked process to a running sandbox: namespaces, root, writable files, privilege drop, supervisor."""

# ruff: noqa: PTH101, PTH102

import fcntl
import os
import signal
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from turnsmith.sandboxes.inside import kernel, wire
from turnsmith.sandboxes.inside.local import root
from turnsmith.sandboxes.inside.local.identity import Identity, fork_owned, map_user
from turnsmith.sandboxes.inside.privileges import drop_privileges
from turnsmith.sandboxes.inside.supervisor import Supervisor, reporting_errors
from turnsmith.sandboxes.inside.toolbox import resource_limits
from turnsmith.sandboxes.inside.warm import Forked
from turnsmith.sandboxes.inside.wire import Limits

STAGE = "/mnt"
SCRATCH = f"{STAGE}/scratch"
"""Mount point of the tmpfs for a sandbox's writes, while the sandbox is built; detached before untrusted code runs."""

INODE_BYTES = 4096
"""Bytes of a sandbox's disk limit per inode (file or folder) that it may create."""

UPPER, TMP, SHM = "upper", "tmp", "shm"
"""Folders of a sandbox's tmpfs that hold writes to the working tree, to /tmp and to /dev/shm."""

_NOSUID_NODEV = kernel.MS_NOSUID | kernel.MS_NODEV
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_NAMESPACE_LIMITS = {
    "max_user_namespaces": 0,  # a nested user namespace would allow tmpfs mounts beyond every limit
    "max_inotify_instances": 8,  # counted per user across all sandboxes, so each gets a small share
    "max_inotify_watches": 8192,
}


@dataclass(frozen=True)
class Mounts:
    """Detached mounts of which a new sandbox is built, as file descriptors."""

    workdir: str
    layers: list[int]
    """File descriptors of the mounted folders that are stacked to make the working tree, lowest first."""
    environment: int | None
    empty: list[str] | None
    """Folders below /usr to show empty in the sandbox's own overlay of /usr; None if all sandboxes share one mount of /usr."""


def fork_sandbox(connection: socket.socket, mounts: Mounts, limits: Limits, identity: Identity) -> None:
    """Fork process 1 of a sandbox, which answers the host's requests on the connection. Raises OSError."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = fork_owned(kernel.NAMESPACES, identity)
        if pid == 0:
            ours.close()
            _be_process_one(theirs, connection, mounts, limits)
        map_user(pid, root.UID, root.UID, identity)
        ours.send(b".")


def _be_process_one(mapped: socket.socket, connection: socket.socket, mounts: Mounts, limits: Limits) -> NoReturn:
    """Wait until `mapped` reports the user mapping, build the sandbox, run the supervisor. Raises Forked in a fork for pytest."""
    try:
        if mapped.recv(1):  # else the spawner failed to map the user, and has reported it
            with reporting_errors(connection):
                _enter(mounts.empty)
                _mount_files(connection, mounts, limits.disk_bytes)
                drop_privileges()
                Supervisor(connection, limits, resource_limits(limits, has_own_disk=True), root.TOOLBOX).run()
    except Forked:
        raise
    except BaseException:
        os._exit(1)
    os._exit(0)


def _enter(empty: list[str] | None) -> None:
    """Move this process into the sandbox's user, root directory, network and host name. The folders in `empty` appear empty."""
    kernel.prctl(kernel.PR_SET_SECUREBITS, kernel.SECBIT_NO_SETUID_FIXUP)
    os.setresgid(root.UID, root.UID, root.UID)
    os.setresuid(root.UID, root.UID, root.UID)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    _enter_root(empty)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:  # bring up loopback for tests
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
    socket.sethostname("sandbox")
    for name, number in _NAMESPACE_LIMITS.items():
        Path(f"/proc/sys/user/{name}").write_text(str(number))


def _enter_root(empty: list[str] | None) -> None:
    tree = kernel.clone_tree(root.ROOT)
    kernel.set_mount_attributes(tree, kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID)
    kernel.attach_tree(tree, root.ROOT)
    if empty is not None:
        root.mount_private_usr(empty)
    kernel.mount("proc", f"{root.ROOT}/proc", "proc", _NOSUID_NODEV | kernel.MS_NOEXEC)
    os.chdir(root.ROOT)
    kernel.pivot_root(".", ".")
    kernel.detach(".")
    os.chdir("/")


def _mount_files(connection: socket.socket, mounts: Mounts, disk_bytes: int) -> None:
    """Mount the working tree and writable folders; send the host a descriptor of the tmpfs that holds the sandbox's writes."""
    kernel.mount("stage", STAGE, "tmpfs", _NOSUID_NODEV, "mode=0700")
    _mount_scratch(disk_bytes)
    scratch = kernel.clone_tree(SCRATCH)
    _stack(mounts.layers, mounts.workdir)
    if mounts.environment is not None:
        kernel.attach_tree(mounts.environment, root.ENVIRONMENT)
    for name, target in ((TMP, "/tmp"), (SHM, "/dev/shm")):
        kernel.attach_tree(kernel.clone_tree(f"{SCRATCH}/{name}"), target)
    os.mkdir(root.HOME)
    socket.send_fds(connection, [wire.pack({})], [scratch])
    os.close(scratch)
    os.chdir("/")
    kernel.detach(STAGE)


def _mount_scratch(disk_bytes: int) -> None:
    """Mount one tmpfs, of limited size, for all files that the sandbox writes."""
    os.mkdir(SCRATCH)
    options = f"mode=0755,size={disk_bytes},nr_inodes={disk_bytes // INODE_BYTES}"
    kernel.mount("scratch", SCRATCH, "tmpfs", _NOSUID_NODEV, options)
    for name, mode in ((UPPER, 0o755), (f"{UPPER}-work", 0o755), (TMP, 0o1777), (SHM, 0o1777)):
        os.mkdir(f"{SCRATCH}/{name}")
        os.chmod(f"{SCRATCH}/{name}", mode)


def _stack(layers: list[int], workdir: str) -> None:
    """Mount the working tree. Its folders get short numeric paths, since mount options are limited to one memory page."""
    os.chdir(STAGE)
    for position, layer in enumerate(layers):
        os.mkdir(str(position))
        kernel.attach_tree(layer, str(position))
    lower = ":".join(str(position) for position in reversed(range(len(layers))))
    options = f"lowerdir={lower},upperdir={SCRATCH}/{UPPER},workdir={SCRATCH}/{UPPER}-work,userxattr"
    kernel.mount(UPPER, workdir, "overlay", _NOSUID_NODEV, options)
