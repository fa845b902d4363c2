"""System calls that no test suite needs and that reach around the limits, out of the sandbox, or far into the kernel, fail.

What anyone may call fails as unknown, so that libraries take another way; what needs privileges is forbidden, as it always was.
"""

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from turnsmith.sandboxes.inside import kernel

_AUDIT_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7, "riscv64": 0xC000_00F3}

_UNKNOWN = {
    "shmget": (29, 194),  # shared memory that nobody maps counts nowhere
    "semget": (64, 190),  # nor do semaphores
    "msgget": (68, 186),  # nor messages that nobody takes
    "memfd_create": (319, 279),  # nor files in memory
    "memfd_secret": (447, 447),
    "io_setup": (206, 0),  # the whole machine shares one small number of requests
    "io_uring_setup": (425, 425),
    "preadv2": (327, 286),  # all sandboxes share what is cached of the system's files: none may ask what is,
    "fadvise64": (221, 223),  # nor have it dropped
    "mincore": (27, 232),
    "cachestat": (451, 451),
    "clone3": (435, 435),  # its flags lie in memory, where no filter can read them; libraries fall back on `clone`
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "modify_ldt": (154, None),
}
_FORBIDDEN = {
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
"""Name → number on x86_64, and on the other architectures; None where there is no such call."""

_OF_A_PROCESS = {
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
"""Calls whose first argument names the process that they limit or slow down; being of its user is enough."""
_OF_PROCESSES = {"setpriority": ((141, 140), 2), "ioprio_set": ((251, 30), 3)}
"""The same of many: numbers, and the value of the first argument by which the second names a user and all his processes."""
_CLONE, _SOCKET, _SOCKETPAIR, _GETSOCKOPT = (56, 220), (41, 198), (53, 199), (55, 209)
_NEWEST = 469
"""The last number that we have looked at, `file_setattr` of Linux 6.17; whatever comes after it is unknown, as is the x32 ABI."""

_NETLINK_ROUTE = 0
_PROCESS_ONE = 1
_SO_COOKIE = 57
"""A number out of one counter of the machine, which whoever asks turns on."""

_INSTRUCTION = struct.Struct("HBBI")
_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_IF_ANY, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 24, 32
"""Offsets in `struct seccomp_data`; of an argument, the lower half, which is all that the kernel takes of those we look at."""
_ALLOW, _FAIL = 0x7FFF_0000, 0x0005_0000
_ENDS = {
    "allowed": _ALLOW,
    "unknown": _FAIL | errno.ENOSYS,
    "forbidden": _FAIL | errno.EPERM,
    "no such family": _FAIL | errno.EAFNOSUPPORT,
    "no such option": _FAIL | errno.ENOPROTOOPT,
}
"""How a program can end, and with what."""


class Step(NamedTuple):
    """One instruction; a jump leads to an end by its name, or over so many steps."""

    code: int
    value: int
    then: int | str = 0
    otherwise: int | str = 0


def deny_system_calls() -> None:
    """Install the filter for this process and all its children; needs no_new_privs."""
    program = compile_filter()
    code = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxQ", len(program) // _INSTRUCTION.size, ctypes.addressof(code))  # struct sock_fprog
    kernel.prctl(kernel.PR_SET_SECCOMP, kernel.SECCOMP_MODE_FILTER, described)


@cache
def compile_filter() -> bytes:
    """The program for this machine; it takes a while, so that who forks many sandboxes asks for it before."""
    return b"".join(assemble(list(make_filter(os.uname().machine))))


def make_filter(machine: str) -> Iterator[Step]:
    """Classic BPF: foreign architectures, foreign numbers, calls that are denied whatever they ask, calls of which it depends."""
    column = 0 if machine == "x86_64" else 1
    yield Step(_LOAD, _ARCHITECTURE)
    yield Step(_JUMP_EQUAL, _AUDIT_ARCHITECTURES[machine], otherwise="unknown")
    yield Step(_LOAD, _NUMBER)
    yield Step(_JUMP_ABOVE, _NEWEST, then="unknown")
    for end, calls in (("unknown", _UNKNOWN), ("forbidden", _FORBIDDEN)):
        for numbers in calls.values():
            number = numbers[column]
            if number is not None:
                yield Step(_JUMP_EQUAL, number, then=end)
    spare_process_one = Step(_JUMP_EQUAL, _PROCESS_ONE, then="forbidden", otherwise="allowed")
    first, second, third = (Step(_LOAD, offset) for offset in (_FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT))
    for numbers in _OF_A_PROCESS.values():
        yield from _only_for(numbers[column], first, spare_process_one)
    for numbers, user in _OF_PROCESSES.values():
        spare_the_user = Step(_JUMP_EQUAL, user, then="forbidden")
        yield from _only_for(numbers[column], first, spare_the_user, second, spare_process_one)
    forbid_namespaces = Step(_JUMP_IF_ANY, kernel.NAMESPACES, then="forbidden", otherwise="allowed")
    yield from _only_for(_CLONE[column], first, forbid_namespaces)
    is_for_sockets = Step(_JUMP_EQUAL, socket.SOL_SOCKET, otherwise="allowed")
    hide_cookies = Step(_JUMP_EQUAL, _SO_COOKIE, then="no such option", otherwise="allowed")
    yield from _only_for(_GETSOCKOPT[column], second, is_for_sockets, third, hide_cookies)
    yield from _allow_families(_SOCKET[column], _SOCKETPAIR[column])


def _only_for(call: int, *steps: Step) -> Iterator[Step]:
    yield Step(_JUMP_EQUAL, call, otherwise=len(steps))
    yield from steps


def _allow_families(call: int, pair: int) -> Iterator[Step]:
    """Sockets within the sandbox, and the questions that libraries ask of its interfaces.

    Other families are not divided into namespaces: by vsock one speaks with the machine below.
    """
    yield Step(_JUMP_EQUAL, call, then=1)
    yield Step(_JUMP_EQUAL, pair, otherwise="allowed")
    yield Step(_LOAD, _FIRST_ARGUMENT)
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
        yield Step(_JUMP_EQUAL, family, then="allowed")
    yield Step(_JUMP_EQUAL, socket.AF_NETLINK, otherwise="no such family")
    yield Step(_LOAD, _THIRD_ARGUMENT)
    yield Step(_JUMP_EQUAL, _NETLINK_ROUTE, then="allowed", otherwise="no such family")


def assemble(steps: list[Step]) -> list[bytes]:
    """The instructions, with the ends behind them."""
    ends = {name: len(steps) + position for position, name in enumerate(_ENDS)}

    def count(target: int | str, position: int) -> int:
        return target if isinstance(target, int) else ends[target] - position - 1

    body = [
        _instruction(step.code, step.value, count(step.then, position), count(step.otherwise, position))
        for position, step in enumerate(steps)
    ]
    return [*body, *(_instruction(_RETURN, value) for value in _ENDS.values())]


def _instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, then, otherwise, value)
