"""Linux system calls that Python's standard library lacks. Each function raises OSError on failure."""

import ctypes
import os
import signal
import struct
from pathlib import Path

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000
NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
"""Kinds of Linux namespaces that each sandbox gets. Processes in a sandbox may not create more."""

MS_REC = 0x4000
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_SLAVE = 0x8_0000
MNT_DETACH = 2

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_IDMAP = 0x10_0000

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4

_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442  # same numbers on all architectures
_SYS_PIVOT_ROOT, _SYS_CLONE = {"x86_64": (155, 56)}.get(os.uname().machine, (41, 220))

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
SECCOMP_MODE_FILTER = 2
SECBIT_NO_SETUID_FIXUP = 4
_LINUX_CAPABILITY_VERSION_3 = 0x2008_0522

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char], what: str) -> int:
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *values), what)


def fork_into(namespaces: int) -> int:
    """Fork a child into new namespaces; return its process id, or 0 in the child. The caller must have one thread."""
    return _syscall(_SYS_CLONE, namespaces | signal.SIGCHLD, 0, 0, 0, 0, what="clone")


def unshare(namespaces: int) -> None:
    """Move this process to new namespaces. A new PID namespace applies to its later children only."""
    _check(_libc.unshare(namespaces), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system, by the system call mount(2)."""
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _check(result, f"mount {kind or source} on {target}")


def detach(target: str) -> None:
    """Unmount `target` and the mounts below it, as soon as they are not in use."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    """Make `new_root` the root directory; the old root appears at `put_old`."""
    _syscall(_SYS_PIVOT_ROOT, new_root.encode(), put_old.encode(), what=f"pivot_root {new_root}")


def clone_tree(path: str) -> int:
    """Clone the mounts at and below `path` as a detached mount tree; return the tree's file descriptor."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    return _syscall(_SYS_OPEN_TREE, _AT_FDCWD, path.encode(), flags, what=f"open_tree {path}")


def set_mount_attributes(tree: int, attributes: int, user_namespace: int = 0) -> None:
    """Add attributes, such as read-only, to all mounts of a tree. MOUNT_ATTR_IDMAP takes its ids from `user_namespace`."""
    changes = ctypes.create_string_buffer(struct.pack("QQQQ", attributes, 0, 0, user_namespace), 32)
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    _syscall(_SYS_MOUNT_SETATTR, tree, b"", flags, changes, 32, what="mount_setattr")


def attach_tree(tree: int, target: str) -> None:
    """Attach a detached mount tree at a path, and close the tree's file descriptor."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH
    _syscall(_SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, target.encode(), flags, what=f"move_mount {target}")
    os.close(tree)


def prctl(option: int, value: int, pointer: bytes = b"") -> None:
    """Change a property of this process, by the system call prctl(2)."""
    _check(_libc.prctl(option, ctypes.c_ulong(value), pointer or None, None, None), f"prctl {option}")


def keep_capabilities_over_exec() -> None:
    """Make this process's capabilities inheritable and ambient, so that the programs that it executes keep them."""
    _set_capabilities(b"\xff")
    for capability in range(int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1):
        arguments = [ctypes.c_ulong(number) for number in (_PR_CAP_AMBIENT_RAISE, capability, 0, 0)]
        _check(_libc.prctl(_PR_CAP_AMBIENT, *arguments), f"prctl {_PR_CAP_AMBIENT}")


def drop_capabilities() -> None:
    """Drop every capability of this process permanently."""
    _set_capabilities(b"\0")


def _set_capabilities(every_byte: bytes) -> None:
    header = struct.pack("II", _LINUX_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, every_byte * 24), "capset")
