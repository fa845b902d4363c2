"""The making of one sandbox: new namespaces, a root of its own, nothing left of the host, then the supervisor."""

import errno
import fcntl
import json
import os
import signal
import socket
import struct
from typing import NoReturn

from turnsmith.sandboxes.inside import kernel, wire
from turnsmith.sandboxes.inside.local import root
from turnsmith.sandboxes.inside.local.identity import Identity, fork_owned, name_user, take_user
from turnsmith.sandboxes.inside.local.mounts import clear_stage, mount_files
from turnsmith.sandboxes.inside.privileges import drop_privileges
from turnsmith.sandboxes.inside.supervisor import Supervisor
from turnsmith.sandboxes.inside.toolbox import resource_limits
from turnsmith.sandboxes.inside.warm import Forked
from turnsmith.sandboxes.inside.wire import Limits

MAX_DESCRIPTORS = 253
"""What the kernel lets pass in one message."""
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_NAMESPACE_LIMITS = {
    "max_user_namespaces": 0,  # a nested one would hand out capabilities, and with them tmpfs mounts beyond every limit
    "max_inotify_instances": 8,  # these two are counted for all sandboxes of a user together: each takes a small share
    "max_inotify_watches": 8192,
}


def fork_sandbox(limits: Limits, identity: Identity) -> socket.socket:
    """Fork process 1 of a sandbox that is nobody's yet; returns the socket by which it is told whose. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        pid = fork_owned(kernel.NAMESPACES, identity)
        if pid == 0:
            ours.close()
            _be_process_one(theirs, limits)
    try:
        name_user(pid, root.UID, root.UID, identity)
        ours.send(b".")
    except OSError:
        ours.close()
        raise
    return ours


def hand_over(sandbox: socket.socket, workdir: str, connection: socket.socket, layers: list[int]) -> None:
    """Give it its workdir, the connection and detached mounts, lowest first, and let go. Raises OSError where it has died."""
    with sandbox:
        socket.send_fds(sandbox, [json.dumps([workdir, len(layers)]).encode()], [connection.fileno(), *layers])


def _be_process_one(orders: socket.socket, limits: Limits) -> NoReturn:
    """Live and end; whatever happens, no second spawner comes of it. Raises Forked in a child that will be pytest."""
    try:
        if orders.recv(1):  # else the spawner could not name us, and has said so
            _live(orders, limits)
    except Forked:
        raise
    except BaseException:
        os._exit(1)
    os._exit(0)


def _live(orders: socket.socket, limits: Limits) -> None:
    failure = _make_ready()
    message, descriptors = wire.receive_descriptors(orders, MAX_DESCRIPTORS)
    orders.close()
    if not descriptors:
        return  # nobody wants us any longer
    with socket.socket(fileno=descriptors[0]) as connection:
        try:
            if failure:
                raise failure
            workdir, num_layers = json.loads(message)
            _finish(connection, workdir, num_layers, descriptors[1:], limits.disk_bytes)
            Supervisor(connection, limits, resource_limits(limits, is_contained=True), root.TOOLBOX).run()
        except Exception as error:
            wire.send(connection, {"error": f"{type(error).__name__}: {error}"})


def _make_ready() -> Exception | None:
    """All that does not depend on the order, and let go of the host; returns what went wrong."""
    try:
        take_user(root.UID, root.UID)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        tree = kernel.clone_tree(root.ROOT)
        kernel.set_mount_attributes(tree, kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID)
        kernel.attach_tree(tree, root.ROOT)
        kernel.mount("proc", f"{root.ROOT}/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        _enter_root()
        _bring_up_loopback()
        socket.sethostname("sandbox")
        _limit_the_namespace()
    except Exception as error:
        return error
    return None


def _finish(connection: socket.socket, workdir: str, num_layers: int, layers: list[int], disk_bytes: int) -> None:
    """Mount its files, hand the host their place, and let go of all power: it will have to wait for that anyway."""
    if len(layers) < num_layers:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # the kernel drops what finds no free descriptor
    scratch = mount_files(layers, workdir, disk_bytes)
    socket.send_fds(connection, [wire.pack({})], [scratch])
    os.close(scratch)
    clear_stage()
    drop_privileges()


def _enter_root() -> None:
    os.chdir(root.ROOT)
    kernel.pivot_root(".", ".")
    kernel.detach(".")
    os.chdir("/")


def _bring_up_loopback() -> None:
    """Tests may talk to themselves; there is no other interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def _limit_the_namespace() -> None:
    for name, number in _NAMESPACE_LIMITS.items():
        fd = os.open(f"/proc/sys/user/{name}", os.O_WRONLY)
        os.write(fd, str(number).encode())
        os.close(fd)
