"""Sockets: services of the host, of the hypervisor, and of other sandboxes."""

import contextlib
import os
import secrets
import socket
import subprocess

import pytest

from turnsmith.sandboxes.base import SandboxSpec

CONNECT = """
for family, address in addresses:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with contextlib.suppress(OSError), socket.socket(family, kind) as end:
            end.settimeout(2)
            end.connect(tuple(address) if isinstance(address, list) else address)
            end.send(b"hello")
"""


def heard(server):
    """Return True if a connection was attempted."""
    server.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        if server.type == socket.SOCK_STREAM:
            server.accept()[0].close()
            return True
        return server.recv(9) == b"hello"
    return False


def addresses_of_this_machine():
    listed = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    return ["127.0.0.1", "::1", *listed]


@pytest.mark.parametrize("protocol", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["tcp", "udp"])
async def test_services_on_the_hosts_loopback_and_other_addresses_hear_nothing(protocol, inside, outside):
    with contextlib.ExitStack() as stack:
        servers = []
        for host in addresses_of_this_machine():
            server = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, protocol))
            server.bind((host, 0))
            if protocol == socket.SOCK_STREAM:
                server.listen()
            servers.append(server)
        addresses = [(int(server.family), list(server.getsockname()[:2])) for server in servers]
        await inside(CONNECT, addresses=addresses)
        assert not any(heard(server) for server in servers)
        outside(CONNECT, addresses=addresses)
        assert all(heard(server) for server in servers)


async def test_abstract_sockets_of_the_host_hear_nothing(inside, outside):
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as packets:
        name = f"\0{secrets.token_hex()}"
        stream.bind(name)
        stream.listen()
        packets.bind(name + "-packets")
        addresses = [(int(socket.AF_UNIX), name), (int(socket.AF_UNIX), name + "-packets")]
        await inside(CONNECT, addresses=addresses)
        assert not heard(stream) and not heard(packets)
        outside(CONNECT, addresses=addresses)
        assert heard(stream) and heard(packets)


async def test_sockets_and_pipes_in_the_hosts_folders_and_layers_hear_nothing(
    provider, inside_of, outside, open_folder
):
    """A layer is shown to the sandbox, and with it whatever listens there."""
    with socket.socket(socket.AF_UNIX) as server:
        path = open_folder / "service"
        server.bind(str(path))
        server.listen()
        path.chmod(0o777)
        os.mkfifo(open_folder / "pipe")
        (open_folder / "pipe").chmod(0o666)
        reader = os.open(open_folder / "pipe", os.O_RDWR | os.O_NONBLOCK)
        inside = inside_of(await provider.start(SandboxSpec((open_folder,))))
        knock = CONNECT + (
            "for path in pipes:\n    with contextlib.suppress(OSError):\n"
            "        os.write(os.open(path, os.O_RDWR | os.O_NONBLOCK), b'hello')\n"
        )
        ways = [str(path), "/testbed/service", f"/proc/1/root{path}"]
        addresses, pipes = [(int(socket.AF_UNIX), way) for way in ways], [str(open_folder / "pipe"), "/testbed/pipe"]
        assert (
            await inside(knock + "print(os.path.exists('/testbed/service'))", addresses=addresses, pipes=pipes)
            == "True"
        )
        assert not heard(server)
        with pytest.raises(BlockingIOError):
            os.read(reader, 9)
        outside(knock, addresses=addresses, pipes=pipes)
        assert heard(server) and os.read(reader, 9) == b"hello"
        os.close(reader)


FAMILIES = """
for family in range(50):
    for kind in (1, 2, 3, 5):
        for protocol in range(25) if family == 16 else (0, 255, 3, 41):
            tell(**{f"{family}.{protocol}" if family == 16 else str(family): lambda: socket.socket(family, kind, protocol)})
"""


async def test_only_sockets_that_stay_in_the_sandbox_can_be_had(inside, outside):
    """Vsock reaches the machine below; packets, Bluetooth, the kernel's own crypto and its many netlink families lie deep."""
    allowed = {str(int(family)) for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)} | {"16.0"}
    assert set((await inside(FAMILIES)).split()) == allowed
    assert set(outside(FAMILIES).split()) > allowed


OFFER = """
servers = []
for family, address in ((2, ("127.0.0.1", 7007)), (10, ("::1", 7007)), (1, "\\0escape"), (1, "/tmp/escape"),
                        (1, "/dev/shm/escape")):
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    servers.append(server)
open("/tmp/message", "w").write("hello")
open("/dev/shm/message", "w").write("hello")
queue = libc.mq_open(b"/escape", os.O_CREAT | os.O_RDWR, 0o666, None)
stay()
"""
REACH = """
tell(
    tcp=lambda: socket.create_connection(("127.0.0.1", 7007), 2) and None,
    tcp6=lambda: socket.create_connection(("::1", 7007), 2) and None,
    abstract=lambda: socket.socket(1).connect("\\0escape"),
    unix=lambda: socket.socket(1).connect("/tmp/escape"),
    shared=lambda: socket.socket(1).connect("/dev/shm/escape"),
    file=lambda: open("/tmp/message"),
    memory=lambda: open("/dev/shm/message"),
    queue=lambda: libc.mq_open(b"/escape", os.O_RDWR),
)
"""


async def test_sandboxes_do_not_reach_each_other(inside, beside, outside):
    await inside(OFFER)
    assert (await inside(REACH)).split() == ["abstract", "file", "memory", "queue", "shared", "tcp", "tcp6", "unix"]
    assert await beside(REACH) == ""
    assert outside(REACH) == ""
