"""The start of one container, and its supervisor's way to us: a socket that is gone as soon as it was used."""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from turnsmith.errors import SandboxError
from turnsmith.sandboxes import container_engine
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.container_engine import Engine
from turnsmith.sandboxes.container_owners import LABEL
from turnsmith.sandboxes.inside import contained
from turnsmith.sandboxes.inside.wire import Limits
from turnsmith.sandboxes.interpreter import to_command

START_TIMEOUT_S = 60.0
RESERVE_BYTES = 128 << 20
"""The engine's limit of memory is so much above ours, which spares the supervisor and so must come first."""
RESERVE_PROCESSES = 16
_PROGRAM = (
    f"import sys; sys.path.append({contained.TOOLBOX!r}); from turnsmith.sandboxes.inside.contained import main; main()"
)


@dataclass(frozen=True)
class Recipe:
    """What all containers of a provider have in common."""

    engine: Engine
    limits: Limits
    lent: dict[str, Path]
    """From place inside to folder of this machine, read-only."""
    owner: str


@dataclass(frozen=True)
class Container:
    """A running one, with our supervisor in it."""

    engine: Engine
    name: str
    connection: Connection

    async def end(self, grace_s: float) -> None:
        """End every process in it, and remove it, or leave that to whoever closes the provider."""
        try:
            await self.connection.stop(grace_s)
        finally:
            await remove_or_leave(self.engine, self.name)


async def start_container(recipe: Recipe, name: str, image: str, workdir: str) -> Container:
    """Start a container of an image, and wait for its supervisor. Raises OSError, SandboxError."""
    with _listening() as (listener, folder):
        options = [*_options(recipe, folder), f"--name={name}", f"--entrypoint={to_command()[0]}"]
        arguments = [
            *to_command("-I", "-S", "-X", "utf8", "-c", _PROGRAM)[1:],
            workdir,
            *map(str, astuple(recipe.limits)),
        ]
        await container_engine.run(recipe.engine.program, "run", *options, image, *arguments)
        try:
            connection = await _connect(listener, recipe.limits.payload_bytes)
        except BaseException:
            await remove_or_leave(recipe.engine, name)
            raise
    return Container(recipe.engine, name, connection)


async def remove_or_leave(engine: Engine, name: str) -> None:
    """Remove a container. Where the engine fails it stays until the provider is closed, and we say so."""
    try:
        await container_engine.remove(engine.program, name)
    except (SandboxError, OSError) as error:
        print(f"turnsmith: the container {name} stays until the end: {error}", file=sys.stderr)


def _options(recipe: Recipe, folder: Path) -> list[str]:
    """No network, no capability, no way to more; labels would keep the supervisor from its socket where SELinux reigns."""
    limits = recipe.limits
    memory = f"{limits.memory_bytes + RESERVE_BYTES}b"
    places = {**recipe.lent, contained.CONNECTION: folder}
    return [
        "--detach",
        "--rm",
        "--pull=never",
        f"--label={LABEL}={recipe.owner}",
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
        *recipe.engine.user_namespace,
        *(f"--volume={source}:{place}:ro" for place, source in places.items()),
    ]


@contextmanager
def _listening() -> Iterator[tuple[socket.socket, Path]]:
    """A socket in a folder that others of this machine cannot reach, and that is gone at the end."""
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as undo:
        outer = Path(tempfile.mkdtemp(prefix="turnsmith-container-"))
        undo.callback(outer.rmdir)
        folder = outer / "connection"
        folder.mkdir()
        undo.callback(folder.rmdir)
        folder.chmod(0o755)
        _bind(listener, folder)
        undo.callback((folder / contained.SOCKET).unlink)
        (folder / contained.SOCKET).chmod(0o666)  # whoever the image's user is
        listener.listen(1)
        listener.setblocking(False)
        yield listener, folder


def _bind(listener: socket.socket, folder: Path) -> None:
    """By a descriptor: the path may be longer than an address can be."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{opened}/{contained.SOCKET}")
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
