"""Root directory that all sandboxes of a provider share read-only: system, interpreter, test runtime, devices.

A provider's helper process builds it once, in a private mount namespace; each sandbox clones it by one system call. The
helper then execs the interpreter in that root and becomes the spawner. So /proc/self/exe of every sandbox lies on a read-only
mount, and no sandbox can modify the interpreter's file.
"""

import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

from turnsmith.sandboxes.inside import kernel, toolbox
from turnsmith.sandboxes.inside.local.identity import choose_identity, map_user
from turnsmith.sandboxes.inside.wire import MAX_REQUEST_BYTES, HostPython, Limits

HOST = "/host"
"""Mount point of the host's file system in the spawner process."""
ROOT = "/box"
"""Folder in which the spawner process builds the root directory of sandboxes."""
TOOLBOX = "/opt/turnsmith"
RUNTIME = "/opt/runtime"
HOME = "/tmp/home"
ENVIRONMENT = "/environment"
COPIES, LOWER = "/copies", "/lower"
"""Folder for copies of host folders in memory; temporary mount point of an overlay's lower folder."""
UID = 1000
"""Id of the user and of the group of all processes, as seen in a sandbox."""

SAFE = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
"""Mount attributes of all host folders in a sandbox: read-only, no set-user-id programs, no devices."""

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
    """Build the root directory of sandboxes, then exec the spawner. Stdin is a SOCK_SEQPACKET socket with the settings."""
    with socket.socket(fileno=os.dup(0)) as control:
        settings = json.loads(control.recv(MAX_REQUEST_BYTES, socket.MSG_PEEK))
        limits, python = Limits(**settings["limits"]), HostPython(**settings["python"])
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the host, which closes the socket
        try:
            _enter_namespaces()
            build_root(python, limits)
            link_folders()
            os.chdir(HOST + sys.path[-1])
            spawner = toolbox.interpreter_arguments(python.program, "local.spawner")
            os.execve(python.program, spawner, toolbox.INTERPRETER)
        except OSError as error:
            control.send(json.dumps({"error": str(error)}).encode())


def _enter_namespaces() -> None:
    """Enter a new mount namespace; if the caller is not the host's root, also a user namespace with kept capabilities.

    There, the caller is not mapped to root, which would own the supervisors' /proc files, so that sandboxed code could open them.
    """
    identity = choose_identity()
    if identity.is_foreign:
        os.setgroups([])
    else:
        kernel.unshare(kernel.CLONE_NEWUSER)
        map_user(os.getpid(), UID, UID, identity)
        kernel.keep_capabilities_over_exec()
    leave_host_root()


def leave_host_root() -> None:
    """Make an empty tmpfs the root directory of this process; the host's file system appears at `/host`."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
    kernel.mount("root", "/tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=0755")
    for name in (HOST, ROOT, COPIES, LOWER):
        Path("/tmp" + name).mkdir()
    kernel.pivot_root("/tmp", "/tmp" + HOST)
    os.chdir("/")
    Path("/proc").symlink_to(HOST + "/proc")


def build_root(python: HostPython, limits: Limits) -> None:
    """Build the root directory of sandboxes. Raises OSError."""
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


def find_empty_folders(python: HostPython) -> list[str] | None:
    """List the host's package folders below /usr, which sandboxes show empty; None if no overlay of /usr is possible."""
    if has_mounts_below(f"{HOST}/usr"):
        return None
    return [folder for folder in python.hidden if folder.startswith("/usr/") and Path(ROOT + folder).is_dir()]


def mount_private_usr(empty: list[str]) -> None:
    """Mount a private overlay at /usr with the given folders empty, so that sandboxes do not share file locks there."""
    _lay_over(f"{HOST}/usr", f"{ROOT}/usr")
    for folder in empty:
        kernel.attach_tree(kernel.clone_tree(f"{ROOT}/mnt"), ROOT + folder)


def link_folders() -> None:
    """Link each folder of the sandboxes' root into this process's root, so that paths of Python modules are valid in both."""
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
    """Make a host path visible in the sandbox root: mount a folder read-only, copy a file or a link, skip a missing path."""
    source, target = Path(HOST + path), Path(ROOT + path)
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.is_file():
        shutil.copyfile(source, target)
    elif source.exists():
        _show_folder(str(source), str(target))


def _show_folder(source: str, target: str) -> None:
    """Mount a host folder as a read-only overlay, so that file locks do not reach the host.

    A folder with mounts below is bind-mounted instead, since an overlay would hide these mounts.
    """
    if has_mounts_below(source):
        _bind(source, target)
        return
    _bind(source, LOWER)  # avoids colons and commas in mount options
    Path(target).mkdir(parents=True, exist_ok=True)
    _lay_over(LOWER, target)
    kernel.detach(LOWER)


def has_mounts_below(folder: str) -> bool:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(mount.split()[4].startswith(f"{folder}/") for mount in mounts)


def _lay_over(source: str, target: str) -> None:
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
