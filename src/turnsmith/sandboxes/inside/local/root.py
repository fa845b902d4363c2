"""The root directory that all sandboxes of a provider share, read-only: system, interpreter, test runtime, devices.

A provider's helper process builds it once, inside a mount namespace of its own; each sandbox clones it with one system call.
Then the process goes on as the spawner, by running the interpreter anew, from the root. Every fork shows its interpreter's file
at /proc/self/exe, and this one lies on a mount that is read-only: nobody can change it there, be it their own file on the host.
"""

import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

from turnsmith.sandboxes.inside import kernel, toolbox
from turnsmith.sandboxes.inside.local.identity import choose_identity, name_user
from turnsmith.sandboxes.inside.wire import MAX_REQUEST_BYTES, HostPython, Limits

HOST = "/host"
"""Where the spawner sees the host's file system."""
ROOT = "/box"
"""Where the spawner builds the root of sandboxes."""
TOOLBOX = "/opt/turnsmith"
RUNTIME = "/opt/runtime"
HOME = "/tmp/home"
ENVIRONMENT = "/environment"
COPIES, LOWER = "/copies", "/lower"
"""Where the spawner keeps copies of layers, and where a folder of the host lies while it is mounted."""
UID = 1000
"""User and group inside a sandbox."""

SAFE = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
"""Attributes of whatever is shown of the host."""

_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("ld.so.cache", "alternatives", "localtime", "mime.types", "services", "protocols")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_EMPTY = ("proc", "tmp", "dev/shm", "run", "root", "var", "etc", "opt", "mnt", "environment")
_FILES = {
    "etc/passwd": f"root:x:0:0:root:/root:/bin/bash\nagent:x:{UID}:{UID}:agent:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": f"root:x:0:\nagent:x:{UID}:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "etc/hostname": "sandbox\n",
    "etc/gitconfig": "[user]\n\tname = agent\n\temail = agent@sandbox\n[safe]\n\tdirectory = *\n",
}
_LINKS = {
    "dev/fd": "/proc/self/fd",
    "dev/stdin": "/proc/self/fd/0",
    "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
    "etc/mtab": "/proc/self/mounts",
    "var/tmp": "/tmp",
}


def main() -> None:
    """Standard input is a socket of packets; the first one holds the settings, which the spawner reads again."""
    with socket.socket(fileno=os.dup(0)) as control:
        settings = json.loads(control.recv(MAX_REQUEST_BYTES, socket.MSG_PEEK))
        limits, python = Limits(**settings["limits"]), HostPython(**settings["python"])
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which will close the socket
        try:
            _enter_namespaces()
            build_root(python, limits)
            enter_root()
            os.chdir(HOST + sys.path[-1])
            spawner = toolbox.interpreter_arguments(python.program, "local.spawner")
            os.execve(python.program, spawner, toolbox.INTERPRETER)
        except OSError as error:
            control.send(json.dumps({"error": str(error)}).encode())


def _enter_namespaces() -> None:
    """An ordinary user has all power in a namespace of his own, and keeps it when a program is run.

    He is not its root: the files of our processes under /proc belong to the root of the namespace, and must not be his.
    """
    identity = choose_identity()
    if identity.is_foreign:
        os.setgroups([])
    else:
        kernel.unshare(kernel.CLONE_NEWUSER)
        name_user(os.getpid(), UID, UID, identity)
        kernel.keep_capabilities_over_exec()
    leave_host_root()


def leave_host_root() -> None:
    """Move into a mount namespace whose root is an empty tmpfs, with the host's file system at `/host`."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
    kernel.mount("root", "/tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=0755")
    for name in (HOST, ROOT, COPIES, LOWER):
        Path("/tmp" + name).mkdir()
    kernel.pivot_root("/tmp", "/tmp" + HOST)
    os.chdir("/")
    Path("/proc").symlink_to(HOST + "/proc")


def build_root(python: HostPython, limits: Limits) -> None:
    """Fill it. Raises OSError."""
    root = Path(ROOT)
    for name in _EMPTY:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        (root / name).write_text(text)
    for name, target in _LINKS.items():
        (root / name).symlink_to(target)
    for name in _SYSTEM:
        _show(f"/{name}")
    for name in _ETC:
        _show(f"/etc/{name}")
    for name in _DEVICES:
        _bind(f"{HOST}/dev/{name}", f"{ROOT}/dev/{name}", SAFE & ~kernel.MOUNT_ATTR_NODEV)
    _add_python(python)
    setup = toolbox.shell_setup(toolbox.resource_limits(limits, has_own_disk=True))
    toolbox.write_toolbox(Path(ROOT + TOOLBOX), python.program, setup)


def find_apart(python: HostPython) -> list[str] | None:
    """Folders of /usr that must stay empty in an overlay of a sandbox's own; None where no overlay can be laid over /usr."""
    if has_mounts_below(f"{HOST}/usr"):
        return None
    return [folder for folder in python.hidden if folder.startswith("/usr/") and Path(ROOT + folder).is_dir()]


def show_usr_apart(empty: list[str]) -> None:
    """Lay another overlay over /usr, in a sandbox's mount namespace: nobody else sees its locks and what it opens there."""
    _lay_over(f"{HOST}/usr", f"{ROOT}/usr")
    for folder in empty:
        kernel.attach_tree(kernel.clone_tree(f"{ROOT}/mnt"), ROOT + folder)


def enter_root() -> None:
    """Let the spawner find modules and libraries where a sandbox has them."""
    for folder in Path(ROOT).iterdir():
        if not Path("/", folder.name).exists():
            Path("/", folder.name).symlink_to(folder)


def _add_python(python: HostPython) -> None:
    if not Path(ROOT + python.prefix).exists():
        _show(python.prefix)
    for folder in python.hidden:
        if Path(ROOT + folder).is_dir():
            _bind(ROOT + "/mnt", ROOT + folder)
    _show_folder(HOST + python.runtime, ROOT + RUNTIME)


def _show(path: str) -> None:
    """Let a path of the host appear at the same place, read-only; links as links, nothing where the host has nothing."""
    source, target = Path(HOST + path), Path(ROOT + path)
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.is_file():
        shutil.copyfile(source, target)
    elif source.exists():
        _show_folder(str(source), str(target))


def _show_folder(source: str, target: str) -> None:
    """By an overlay: whoever locks a file of it locks the overlay's, and no process of the host has to wait.

    An overlay shows nothing of what is mounted below its folder, and an ordinary user may not lay one over such a folder. So
    that one is bound, and its files are the host's.
    """
    if has_mounts_below(source):
        _bind(source, target)
        return
    _bind(source, LOWER)  # a path with a colon or a comma could not be an option
    Path(target).mkdir(parents=True, exist_ok=True)
    _lay_over(LOWER, target)
    kernel.detach(LOWER)


def has_mounts_below(folder: str) -> bool:
    """Is anything mounted below a folder?"""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(mount.split()[4].startswith(f"{folder}/") for mount in mounts)


def _lay_over(source: str, target: str) -> None:
    """Show a folder by a read-only overlay."""
    options = f"lowerdir={source}:{ROOT}/mnt,userxattr"
    kernel.mount("host", target, "overlay", kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV, options)


def _bind(source: str, target: str, attributes: int = SAFE) -> None:
    if Path(source).is_dir():
        Path(target).mkdir(parents=True, exist_ok=True)
    else:
        Path(target).touch()
    tree = kernel.clone_tree(source)
    kernel.set_mount_attributes(tree, attributes)
    kernel.attach_tree(tree, target)
