"""Network interfaces of this machine, and ports of others."""

import fcntl
import socket
import struct
from contextlib import suppress

ANSWER_S = 5.0
"""Seconds within which a machine must accept a connection."""
GET_ADDRESS = 0x8915
"""Request SIOCGIFADDR of Linux's ioctl: the IPv4 address of an interface."""


Address = tuple[str, int]
"""Host and port."""


def is_closed(address: Address) -> bool:
    """Return True if a machine answers that no process listens at this port. A machine that does not answer may be slow."""
    try:
        socket.create_connection(address, ANSWER_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def find_interface(address: str) -> str | None:
    """Find the network interface that has an IPv4 address; None if no interface has it."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if read_address(name) == address), None)


def read_address(name: str) -> str | None:
    """Read the IPv4 address of a network interface; None if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        answer = fcntl.ioctl(probe, GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
        return socket.inet_ntoa(answer[20:24])
    return None
