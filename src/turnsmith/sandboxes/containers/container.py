"""The start of one container, and its supervisor's way to us: a socket that is gone as soon as it was used."""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

from turnsmith.errors import SandboxError, UsageError
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.containers.interpreter import to_command
from turnsmith.sandboxes.containers.owners import LABEL
from turnsmith.sandboxes.containers.podman import Podman, ask, remove
from turnsmith.sandboxes.finishing import finish_in_thread
from turnsmith.sandboxes.inside import container
from turnsmith.sandboxes.inside.wire import Limits

START_TIMEOUT_S = 60.0
RESERVE_BYTES = 128 << 20
"""Podman's limit of memory is so much above ours, which spares the supervisor and so must come first."""
RESERVE_PROCESSES = 16
_PROGRAM = (
    f"import sys; sys.path.append({container.TOOLBOX!r}); from turnsmith.sandboxes.inside.container import main; main()"
)


@dataclass(frozen=True)
class Settings:
    """What all containers of a provider have in common."""

    podman: Podman
    limits: Limits
    lent: dict[str, Path]
    """From place inside to folder of this machine, read-only."""
    owner: str


async def start_container(settings: Settings, name: str, image: str, workdir: str, folder: Path) -> Connection:
    """The connection to the supervisor of a new container, `tree` of a folder at its workdir. Raises OSError, SandboxError."""
    with _listening(folder / "connection") as listener:
        options = [*_options(settings, folder, workdir), f"--name={name}", f"--entrypoint={to_command()[0]}"]
        arguments = [
            *to_command("-I", "-S", "-X", "utf8", "-c", _PROGRAM)[1:],
            *map(str, astuple(settings.limits)),
        ]
        command = ["run", *options, image, *arguments]
        await finish_in_thread(partial(ask, settings.podman.program, command, fault="podman run"))
        try:
            connection = await _connect(listener, settings.limits.payload_bytes)
            ready = {
                "op": "read",
                "path": "/",
                "timeout_s": START_TIMEOUT_S,
            }  # any answer will do: it serves this image
            await connection.request(ready, patience_s=START_TIMEOUT_S)
            return connection
        except BaseException:
            await remove_or_leave(settings.podman, name)
            raise


async def remove_or_leave(engine: Podman, name: str) -> None:
    """Remove a container. Where podman fails it stays until the provider is closed, and we say so."""
    try:
        await finish_in_thread(partial(remove, engine.program, name))
    except UsageError as error:
        print(f"turnsmith: the container {name} stays until the end: {error}", file=sys.stderr)


def _options(settings: Settings, folder: Path, workdir: str) -> list[str]:
    """No network, no capability, no way to more; labels would keep the supervisor from its socket where SELinux reigns."""
    limits = settings.limits
    memory = f"{limits.memory_bytes + RESERVE_BYTES}b"
    places = {**settings.lent, container.CONNECTION: folder / "connection"}
    return [
        "--detach",
        "--interactive",  # else the host's /dev/null is its input, and podman makes that the container's own
        "--rm",
        "--pull=never",
        f"--label={LABEL}={settings.owner}",
        "--network=none",
        "--hostname=sandbox",
        "--workdir=/",
        "--log-driver=none",
        "--cap-drop=all",
        "--security-opt=no-new-privileges",
        "--security-opt=label=disable",
        f"--memory={memory}",
        f"--memory-swap={memory}",
        f"--pids-limit={limits.num_processes + RESERVE_PROCESSES}",
        *settings.podman.user_namespace,
        f"--volume={folder / 'tree'}:{workdir}:U,nosuid,nodev",
        *(f"--volume={source}:{place}:ro" for place, source in places.items()),
    ]


@contextmanager
def _listening(folder: Path) -> Iterator[socket.socket]:
    """A socket in a new folder, which is empty at the end."""
    folder.mkdir()
    folder.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as undo:
        _bind(listener, folder)
        undo.callback((folder / container.SOCKET).unlink)
        (folder / container.SOCKET).chmod(0o666)  # whoever the image's user is
        listener.listen(1)
        listener.setblocking(False)
        yield listener


def _bind(listener: socket.socket, folder: Path) -> None:
    """By a descriptor: the path may be longer than an address can be."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{opened}/{container.SOCKET}")
    finally:
        os.close(opened)


async def _connect(listener: socket.socket, max_payload_bytes: int) -> Connection:
    """To the supervisor, who calls. Raises OSError, SandboxError."""
    try:
        end, _ = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(listener), START_TIMEOUT_S)
    except TimeoutError:
        raise SandboxError(f"its supervisor did not answer for {START_TIMEOUT_S:.0f} s") from None
    with ExitStack() as undo:
        undo.callback(end.close)
        connection = await Connection.open(end, max_payload_bytes)
        undo.pop_all()
    return connection
