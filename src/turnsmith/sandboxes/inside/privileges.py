"""Privilege drop of process 1 of a sandbox: no capabilities, not traceable, and a seccomp filter.

The filter denies system calls that test suites do not need and that could evade limits, escape the sandbox, or attack the
kernel. Calls that need no privilege fail with ENOSYS, so that libraries use an alternative; privileged calls fail with EPERM.
"""

import ctypes
import errno
import os
import signal
import socket
import struct
from functools import cache

from turnsmith.sandboxes.inside import kernel

_AUDIT_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7, "riscv64": 0xC000_00F3}

Numbers = tuple[int, int | None]
"""Numbers of a system call on x86_64 and on other architectures; None if an architecture lacks the call."""

_UNKNOWN: dict[str, Numbers] = {
    "shmget": (29, 194),  # unmapped shared memory is not counted by any limit
    "semget": (64, 190),  # same for semaphores
    "msgget": (68, 186),  # same for unread messages
    "memfd_create": (319, 279),  # same for files in memory
    "memfd_secret": (447, 447),
    "io_setup": (206, 0),  # a small number of requests is shared by the whole machine
    "io_uring_setup": (425, 425),
    "preadv2": (327, 286),  # the page cache is shared: reading its state leaks between sandboxes,
    "fadvise64": (221, 223),  # and so does dropping it
    "mincore": (27, 232),
    "cachestat": (451, 451),
    "clone3": (435, 435),  # its flags lie in memory, which a filter cannot read; libraries fall back on `clone`
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "modify_ldt": (154, None),
}
"""System calls that fail as if the kernel did not have them (ENOSYS)."""
_FORBIDDEN: dict[str, Numbers] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "syslog": (103, 116),
    "acct": (163, 89),
    "reboot": (169, 142),
    "vhangup": (153, 58),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_OF_A_PROCESS: dict[str, Numbers] = {
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
"""System calls that can slow down the process in their first argument. The filter denies them for process 1 (supervisor)."""
_OF_PROCESSES: dict[str, tuple[Numbers, int]] = {"setpriority": ((141, 140), 2), "ioprio_set": ((251, 30), 3)}
"""System call → its numbers, and the value of its first argument that means all processes of a user, which is denied."""
_CLONE, _SOCKET, _SOCKETPAIR, _GETSOCKOPT = (56, 220), (41, 198), (53, 199), (55, 209)
_NEWEST = 469
"""Highest system call number that the filter knows (`file_setattr`, Linux 6.17); higher ones fail with ENOSYS."""

_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
"""Socket families that sandboxes may use. Network namespaces do not isolate the others: vsock reaches the hypervisor."""
_NETLINK_ROUTE = 0
"""Only netlink protocol that sandboxes may use. Libraries list network interfaces by it."""
_PROCESS_ONE = 1
_SO_COOKIE = 57
"""Socket option that the filter denies, because it reads a counter shared by the whole machine."""

_INSTRUCTION = struct.Struct("HBBI")
"""Layout of a BPF instruction: code, jump if true, jump if false, value."""
_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 24, 32
"""Byte offsets in `struct seccomp_data`; for an argument, the offset of its lower 32 bits."""


def drop_privileges() -> None:
    """Drop the privileges of this process and of its later children; redirect the standard streams to /dev/null."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    program = compile_filter()
    code = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxQ", len(program) // _INSTRUCTION.size, ctypes.addressof(code))  # struct sock_fprog
    kernel.prctl(kernel.PR_SET_SECCOMP, kernel.SECCOMP_MODE_FILTER, described)
    kernel.drop_capabilities()
    kernel.prctl(
        kernel.PR_SET_DUMPABLE, 0
    )  # processes of the same user may not trace this one or open its files under /proc
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)


@cache
def compile_filter() -> bytes:
    """Compile the seccomp filter for this machine. Compiling is slow, so the spawner does it once, before it forks."""
    return b"".join(make_filter(os.uname().machine))


def make_filter(machine: str) -> list[bytes]:
    """Build the BPF program of the seccomp filter: check the architecture, the call number, then some calls' arguments."""
    unknown, forbidden = _fail(errno.ENOSYS), _fail(errno.EPERM)
    program = [
        _load(_ARCHITECTURE),
        _INSTRUCTION.pack(_EQUAL, 1, 0, _AUDIT_ARCHITECTURES[machine]),
        unknown,
        _load(_NUMBER),
        *_where(_ABOVE, _NEWEST, unknown),
    ]
    rules = [
        *((numbers, [unknown]) for numbers in _UNKNOWN.values()),
        *((numbers, [forbidden]) for numbers in _FORBIDDEN.values()),
        *_check_arguments(forbidden),
    ]
    for numbers, steps in rules:
        number = numbers[machine != "x86_64"]
        if number is not None:
            program += _where(_EQUAL, number, *steps)
    return [*program, _ALLOW]


def _check_arguments(forbidden: bytes) -> list[tuple[Numbers, list[bytes]]]:
    """List system calls with the BPF instructions that check their arguments. The instruction `forbidden` denies a call."""
    first, second, third = _load(_FIRST_ARGUMENT), _load(_SECOND_ARGUMENT), _load(_THIRD_ARGUMENT)
    spare_process_one = [*_where(_EQUAL, _PROCESS_ONE, forbidden), _ALLOW]
    hide_cookies = _where(_EQUAL, _SO_COOKIE, _fail(errno.ENOPROTOOPT))
    choose_family = [
        first,
        *(step for family in _FAMILIES for step in _where(_EQUAL, family, _ALLOW)),
        *_where(_EQUAL, socket.AF_NETLINK, third, *_where(_EQUAL, _NETLINK_ROUTE, _ALLOW)),
        _fail(errno.EAFNOSUPPORT),
    ]
    return [
        *((numbers, [first, *spare_process_one]) for numbers in _OF_A_PROCESS.values()),
        *(
            (numbers, [first, *_where(_EQUAL, user, forbidden), second, *spare_process_one])
            for numbers, user in _OF_PROCESSES.values()
        ),
        (_CLONE, [first, *_where(_ANY_BIT, kernel.NAMESPACES, forbidden), _ALLOW]),
        (_GETSOCKOPT, [second, *_where(_EQUAL, socket.SOL_SOCKET, third, *hide_cookies), _ALLOW]),
        (_SOCKET, choose_family),
        (_SOCKETPAIR, choose_family),
    ]


def _load(offset: int) -> bytes:
    return _INSTRUCTION.pack(_LOAD, 0, 0, offset)


def _where(comparison: int, value: int, *steps: bytes) -> list[bytes]:
    """Build a BPF condition: run the steps if the loaded value satisfies the comparison, else skip them."""
    return [_INSTRUCTION.pack(comparison, 0, len(steps), value), *steps]


def _fail(number: int) -> bytes:
    return _INSTRUCTION.pack(_RETURN, 0, 0, 0x0005_0000 | number)


_ALLOW = _INSTRUCTION.pack(_RETURN, 0, 0, 0x7FFF_0000)
