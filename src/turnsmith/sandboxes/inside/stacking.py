"""The files of a new sandbox: folders of one scratch space, stacked over what was frozen of them, over the layers.

What is frozen is the whole scratch space of a sandbox that has ended; nothing is copied.
"""

# ruff: noqa: PTH101, PTH102, PTH116, PTH208

import os
import stat

from turnsmith.sandboxes.inside import kernel, template

STAGE = "/mnt"
SCRATCH = f"{STAGE}/scratch"
"""Where things are while they are put together; it must be gone before anyone else runs."""

INODE_BYTES = 4096
"""One file or directory is allowed for each so many bytes of the disk limit."""

UPPER, TMP, SHM = "upper", "tmp", "shm"
"""Folders of a scratch space: what was written in the working tree, in /tmp, in /dev/shm."""

_MODES = {UPPER: 0o755, TMP: 0o1777, SHM: 0o1777}
_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV


def mount_files(layers: list[int], num_frozen: int, workdir: str, disk_bytes: int) -> int:
    """Mount all that the sandbox can write; of the layers, detached mounts and lowest first, the uppermost are frozen.

    Returns the scratch space as a detached mount.
    """
    kernel.mount("stage", STAGE, "tmpfs", _FLAGS, "mode=0700")
    os.mkdir(SCRATCH)
    _mount_scratch(disk_bytes)
    scratch = kernel.clone_tree(SCRATCH)
    _attach(layers)
    _mount_stacks(len(layers), num_frozen, workdir)
    return scratch


def clear_stage() -> None:
    """Take down what was only needed to put things together."""
    os.chdir("/")
    kernel.detach(STAGE)


def _attach(layers: list[int]) -> None:
    """Each at its number, which is its path from here on: a mount's options are one page at most."""
    os.chdir(STAGE)
    for position, tree in enumerate(layers):
        os.mkdir(str(position))
        kernel.attach_tree(tree, str(position))


def _mount_stacks(num_layers: int, num_frozen: int, workdir: str) -> None:
    positions = [str(position) for position in reversed(range(num_layers))]
    frozen, given = positions[:num_frozen], positions[num_frozen:]
    for name, target, lowest in ((UPPER, workdir, given), (TMP, "/tmp", []), (SHM, "/dev/shm", [])):
        _make_folder(name, frozen)
        below = [folder for position in frozen if os.listdir(folder := f"{position}/{name}")]
        _show(name, [*below, *lowest], target)
    if not frozen:
        os.mkdir(template.HOME)


def _mount_scratch(disk_bytes: int) -> None:
    """One tmpfs holds all that the sandbox writes, so that one size limits it all."""
    options = f"mode=0755,size={disk_bytes},nr_inodes={disk_bytes // INODE_BYTES}"
    kernel.mount("scratch", SCRATCH, "tmpfs", _FLAGS, options)


def _make_folder(name: str, frozen: list[str]) -> None:
    """A new writable folder; the root of a stack looks as its uppermost folder does."""
    folder = f"{SCRATCH}/{name}"
    os.mkdir(folder)
    if frozen:
        status = os.stat(f"{frozen[0]}/{name}")
        os.chmod(folder, stat.S_IMODE(status.st_mode))
        os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        os.chmod(folder, _MODES[name])


def _show(name: str, below: list[str], target: str) -> None:
    """The folder at its place, stacked over others, uppermost first, where there are any."""
    folder = f"{SCRATCH}/{name}"
    if not below:
        kernel.attach_tree(kernel.clone_tree(folder), target)
        return
    os.mkdir(f"{folder}-work")
    options = f"lowerdir={':'.join(below)},upperdir={folder},workdir={folder}-work,userxattr"
    kernel.mount(name, target, "overlay", _FLAGS, options)
