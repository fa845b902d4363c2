"""Each thing that a local sandbox needs of the kernel, found by doing it in a child that then ends."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.local.identity import Identity, name_user


def main() -> None:
    """Print a list of `[name, what went wrong or ""]` as JSON."""
    print(json.dumps([[name, attempt_in_child(attempt)] for name, attempt in ATTEMPTS.items()]))


def attempt_in_child(attempt: Callable[[], None]) -> str:
    """Run it where it can change nothing of ours; returns the error, empty where all went well."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            attempt()
        except OSError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.wait()
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()


def enter_user_namespace() -> None:
    identity = Identity(os.geteuid(), os.getegid(), False)
    kernel.unshare(kernel.CLONE_NEWUSER)
    name_user(os.getpid(), 0, 0, identity)


def enter_process_and_network_namespaces() -> None:
    enter_user_namespace()
    kernel.unshare(kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS)


def mount_overlay() -> None:
    """Mount a tmpfs and an overlay in it, and write to it."""
    enter_user_namespace()
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
    top = tempfile.gettempdir()
    kernel.mount("attempt", top, "tmpfs", 0)
    for name in ("lower/folder", "upper", "work", "merged"):
        Path(top, name).mkdir(parents=True)
    options = f"lowerdir={top}/lower,upperdir={top}/upper,workdir={top}/work,userxattr"
    kernel.mount("attempt", f"{top}/merged", "overlay", 0, options)
    Path(top, "merged", "file").touch()


def replace_overlay_folder() -> None:
    """Needs user extended attributes on tmpfs: Linux 6.6."""
    mount_overlay()
    folder = Path(tempfile.gettempdir(), "merged", "folder")
    folder.rmdir()
    folder.mkdir()


def clone_mounts() -> None:
    """Needs the mount calls of Linux 5.12."""
    enter_user_namespace()
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.set_mount_attributes(kernel.clone_tree("/"), kernel.MOUNT_ATTR_RDONLY)


ATTEMPTS: dict[str, Callable[[], None]] = {
    "user namespaces": enter_user_namespace,
    "process and network namespaces": enter_process_and_network_namespaces,
    "overlay mounts": mount_overlay,
    "replacing a folder of a layer": replace_overlay_folder,
    "cloned read-only mounts": clone_mounts,
}
