"""System calls that no test suite needs and that reach around the limits, or far into the kernel, fail as unknown."""

import ctypes
import errno
import os
import struct

from turnsmith.sandboxes.inside import kernel

_AUDIT_ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7, "riscv64": 0xC000_00F3}

_DENIED_X86_64 = {
    "shmget": 29,  # shared memory that nobody maps counts nowhere
    "memfd_create": 319,  # neither do files in memory
    "memfd_secret": 447,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "perf_event_open": 298,
    "bpf": 321,
    "userfaultfd": 323,
    "io_uring_setup": 425,
}
_DENIED_GENERIC = {
    "shmget": 194,
    "memfd_create": 279,
    "memfd_secret": 447,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "perf_event_open": 241,
    "bpf": 280,
    "userfaultfd": 282,
    "io_uring_setup": 425,
}
_X32_BIT = 0x4000_0000

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE = 0, 4
_ALLOW, _FAIL = 0x7FFF_0000, 0x0005_0000 | errno.ENOSYS


def deny_system_calls() -> None:
    """Install the filter for this process and all its children; needs no_new_privs."""
    machine = os.uname().machine
    denied = _DENIED_X86_64 if machine == "x86_64" else _DENIED_GENERIC
    program = make_filter(_AUDIT_ARCHITECTURES[machine], sorted(denied.values()))
    code = ctypes.create_string_buffer(b"".join(program))
    kernel.set_filter(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))


def make_filter(architecture: int, denied: list[int]) -> list[bytes]:
    """Classic BPF: fail on a foreign architecture and on the denied numbers, allow the rest. Jumps count instructions to skip."""
    num = len(denied)
    return [
        _instruction(_LOAD, _OFFSET_ARCHITECTURE),
        _instruction(_JUMP_EQUAL, architecture, otherwise=num + 3),
        _instruction(_LOAD, _OFFSET_NUMBER),
        _instruction(_JUMP_AT_LEAST, _X32_BIT, then=num + 1),
        *(_instruction(_JUMP_EQUAL, number, then=num - index) for index, number in enumerate(denied)),
        _instruction(_RETURN, _ALLOW),
        _instruction(_RETURN, _FAIL),
    ]


def _instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, value)
