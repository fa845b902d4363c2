"""The making of one sandbox: new namespaces, a root of its own, nothing left of the host, then the supervisor."""

# ruff: noqa: PTH101, PTH102

import fcntl
import os
import signal
import socket
import struct
from dataclasses import dataclass
from typing import NoReturn

from turnsmith.sandboxes.inside import kernel, template, wire
from turnsmith.sandboxes.inside.identity import Identity, name_user, take_user
from turnsmith.sandboxes.inside.seccomp import deny_system_calls
from turnsmith.sandboxes.inside.supervisor import Supervisor
from turnsmith.sandboxes.inside.toolbox import resource_limits
from turnsmith.sandboxes.inside.wire import Limits

_NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_INODE_BYTES = 4096
"""One file or directory is allowed for each so many bytes of the disk limit."""


@dataclass(frozen=True)
class Box:
    """What a new sandbox is made of."""

    connection: socket.socket
    layers: list[int]
    """Detached mounts, lowest first."""
    workdir: str
    limits: Limits


def fork_box(box: Box, identity: Identity) -> None:
    """Fork process 1 of a new sandbox and give it its user; it reports on its connection."""
    gate, opener = os.pipe()
    pid = kernel.fork_into(_NAMESPACES)
    if pid == 0:
        os.close(opener)
        _be_process_one(box, gate)
    os.close(gate)
    try:
        name_user(pid, template.UID, template.UID, identity)
        os.write(opener, b".")
    finally:
        os.close(opener)


def _be_process_one(box: Box, gate: int) -> NoReturn:
    """Make the sandbox around this process, then serve it. Never returns; raises Forked in a child that will be pytest."""
    try:
        if os.read(gate, 1):  # else the spawner could not name us, and has said so
            _furnish(box)
            limits = resource_limits(box.limits, is_contained=True)
            Supervisor(box.connection, box.limits, limits, template.TOOLBOX).run()
    except Exception as error:
        wire.send(box.connection, {"error": f"{type(error).__name__}: {error}"})
    os._exit(0)


def _furnish(box: Box) -> None:
    take_user(template.UID, template.UID)
    kernel.die_with_parent(signal.SIGKILL)
    upper = _build_root(box)
    _bring_up_loopback()
    socket.sethostname("sandbox")
    _forbid_nested_namespaces()
    _drop_privileges()
    _close_standard_streams()
    socket.send_fds(box.connection, [wire.pack({})], [upper])
    os.close(upper)


def _build_root(box: Box) -> int:
    """Mount everything and let go of the host; returns the writable layer as a descriptor."""
    tree = kernel.clone_tree(template.ROOT)
    kernel.set_mount_attributes(tree, kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID)
    kernel.attach_tree(tree, template.ROOT)
    _mount_scratch(box.limits)
    _mount_workspace(box)
    upper = os.open(f"{template.SCRATCH}/upper", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    kernel.mount("proc", f"{template.ROOT}/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    os.chdir(template.ROOT)
    kernel.pivot_root(".", ".")
    kernel.detach(".")
    os.chdir("/")
    return upper


def _mount_scratch(limits: Limits) -> None:
    """One tmpfs holds all that the sandbox writes, so that one size limits it all."""
    options = f"mode=0755,size={limits.disk_bytes},nr_inodes={limits.disk_bytes // _INODE_BYTES}"
    kernel.mount("scratch", template.SCRATCH, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
    for name in ("upper", "work", "tmp", "shm", "tmp/home"):
        os.mkdir(f"{template.SCRATCH}/{name}")
    for name, target in (("tmp", "tmp"), ("shm", "dev/shm")):
        os.chmod(f"{template.SCRATCH}/{name}", 0o1777)
        kernel.attach_tree(kernel.clone_tree(f"{template.SCRATCH}/{name}"), f"{template.ROOT}/{target}")


def _mount_workspace(box: Box) -> None:
    """Stack the layers under the writable one."""
    for position, tree in enumerate(box.layers):
        kernel.attach_tree(tree, f"{template.LAYERS}/{position}")
    lower = ":".join(f"{template.LAYERS}/{position}" for position in reversed(range(len(box.layers))))
    options = f"lowerdir={lower},upperdir={template.SCRATCH}/upper,workdir={template.SCRATCH}/work,userxattr"
    kernel.mount("workspace", template.ROOT + box.workdir, "overlay", kernel.MS_NOSUID | kernel.MS_NODEV, options)


def _bring_up_loopback() -> None:
    """Tests may talk to themselves; there is no other interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def _forbid_nested_namespaces() -> None:
    """A nested user namespace would hand out capabilities, and with them tmpfs mounts beyond every limit."""
    fd = os.open("/proc/sys/user/max_user_namespaces", os.O_WRONLY)
    os.write(fd, b"0")
    os.close(fd)


def _drop_privileges() -> None:
    """Process 1 is as weak as the rest, yet out of their reach."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.forbid_new_privileges()
    deny_system_calls()
    kernel.drop_capabilities()
    kernel.set_dumpable(False)


def _close_standard_streams() -> None:
    """The host's terminal and the spawner's socket stay outside."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)
