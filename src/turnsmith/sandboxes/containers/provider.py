"""Sandboxes in Podman containers, for tasks with a container image.

Process 1 of each container is Turnsmith's supervisor, run by a mounted interpreter. The working tree is a host folder.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError
from turnsmith.runs.temporary import temporary_folder
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.connection import Connection
from turnsmith.sandboxes.containers.interpreter import prepare_interpreter, to_command, write_toolbox
from turnsmith.sandboxes.images.images import Image, find_image, find_tree
from turnsmith.sandboxes.inside import container, toolbox
from turnsmith.sandboxes.launch import finish_in_thread
from turnsmith.sandboxes.podman import LABEL, PODMAN, ask, find_users, remove_forgotten, remove_owned
from turnsmith.sandboxes.supervised import Parts, SupervisedProvider
from turnsmith.sandboxes.working_tree import copy_tree

START_TIMEOUT_S = 60.0
RESERVE_BYTES = 128 << 20
"""Memory added to podman's limit, so that the supervisor enforces the sandbox's limit before the kernel ends the container."""
RESERVE_PROCESSES = 16
_PROGRAM = (
    f"import sys; sys.path.append({container.TOOLBOX!r}); from turnsmith.sandboxes.inside.container import main; main()"
)


class ContainerProvider(SupervisedProvider):
    """Provider that starts one container per sandbox. Containers end with this process."""

    isolation = "container-user"
    takes_images = True

    def __init__(self, config: SandboxConfig) -> None:
        """Check podman and the default image. Raises UsageError if podman or that image is missing."""
        super().__init__(config)
        self.program = config.container_engine or PODMAN
        self.owner = secrets.token_hex(8)
        self._users = find_users(self.program)
        self._interpreter = prepare_interpreter()
        self._default_image = config.image
        self._images = {name: find_image(self.program, name) for name in [config.image] if name}
        self._finding = asyncio.Lock()
        remove_forgotten(self.program)

    async def _make(self, spec: SandboxSpec, held: ExitStack) -> Parts:
        image, base = await self._find(spec.image or self._default_image, spec.workdir)
        if not base and not spec.layers:
            raise SandboxError(f"the image has no files at {spec.workdir}, and the task brings none")
        folder = held.enter_context(temporary_folder("container"))
        tree = await copy_tree((*base, *spec.layers), folder / "tree", spec.workdir, spec.workdir, held)
        write_toolbox(folder / "toolbox", toolbox.shell_setup(toolbox.resource_limits(self._limits)))
        connection = await self._connect(image, spec.workdir, folder, held)
        return connection, tree, make_environment(image)

    async def _find(self, name: str, workdir: str) -> tuple[Image, tuple[Path, ...]]:
        """Return an image and a folder with a cached copy of its files at `workdir`; () if there are none. Raises UsageError."""
        async with self._finding:
            if name not in self._images:
                self._images[name] = await finish_in_thread(lambda: find_image(self.program, name))
            image = self._images[name]
            base = await finish_in_thread(lambda: find_tree(self.program, image, workdir, self.owner))
            return image, base

    async def _connect(self, image: Image, workdir: str, folder: Path, held: ExitStack) -> Connection:
        """Start a container and connect to its supervisor; the container ends with the connection.

        Raises OSError, TurnsmithError.
        """
        program, *arguments = to_command("-I", "-S", "-X", "utf8", "-c", _PROGRAM, *map(str, astuple(self._limits)))
        options = [*self._options(folder, workdir), f"--entrypoint={program}"]
        with listening(folder / "connection") as listener:
            command = ["run", *options, image.identity, *arguments]
            await finish_in_thread(lambda: ask(self.program, command, fault="podman run"))
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    end, _ = await asyncio.get_running_loop().sock_accept(listener)
            except TimeoutError:
                raise SandboxError(
                    f"the supervisor in the container did not answer for {START_TIMEOUT_S:.0f} s"
                ) from None
        held.callback(end.close)
        return await Connection.open(end, self._limits.payload_bytes)

    def _options(self, folder: Path, workdir: str) -> list[str]:
        """Build podman's options: no network, no capabilities, no SELinux labels (they would block the supervisor's socket)."""
        memory = f"{self._limits.memory_bytes + RESERVE_BYTES}b"
        return [
            "--detach",
            "--interactive",  # else podman turns the host's /dev/null into the container's
            "--rm",
            "--pull=never",
            f"--label={LABEL}={self.owner}",
            "--network=none",
            "--hostname=sandbox",
            "--workdir=/",
            "--log-driver=none",
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
            "--security-opt=label=disable",
            f"--memory={memory}",
            f"--memory-swap={memory}",
            f"--pids-limit={self._limits.num_processes + RESERVE_PROCESSES}",
            *self._users,
            f"--volume={folder / 'tree'}:{workdir}:U,nosuid,nodev",
            f"--volume={folder / 'toolbox'}:{container.TOOLBOX}:ro",
            f"--volume={folder / 'connection'}:{container.CONNECTION}:ro",
            f"--volume={self._interpreter}:{container.PYTHON}:ro",
        ]

    async def close(self) -> None:
        """Stop every sandbox and remove the containers that are still starting."""
        await super().close()
        await finish_in_thread(lambda: remove_owned(self.program, self.owner))


@contextmanager
def listening(folder: Path) -> Iterator[socket.socket]:
    """Listen for a container's supervisor on a socket in a new folder; remove the socket on exit."""
    folder.mkdir()
    folder.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as undo:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        undo.callback(os.close, opened)
        listener.bind(f"/proc/self/fd/{opened}/{container.SOCKET}")  # avoids the length limit of socket paths
        undo.callback((folder / container.SOCKET).unlink)
        (folder / container.SOCKET).chmod(0o666)  # the image may run as any user
        listener.listen(1)
        listener.setblocking(False)
        yield listener


def make_environment(image: Image) -> dict[str, str]:
    """Build the variables of commands: defaults, overridden by the image's, overridden by those of the mounted interpreter."""
    path = image.environment.get("PATH") or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        **toolbox.environment("", "", image.home),
        "USER": "root",
        **image.environment,
        **toolbox.INTERPRETER,
        "PATH": f"{path}:{container.PYTHON}/bin",
    }
