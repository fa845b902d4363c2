"""Network interfaces of this machine."""

import fcntl
import socket
import struct
from contextlib import suppress

GET_ADDRESS = 0x8915
"""Request SIOCGIFADDR of Linux's ioctl: the IPv4 address of an interface."""


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
