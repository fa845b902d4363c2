"""The files of a new sandbox: folders of one scratch space, the working tree stacked over the layers."""

# ruff: noqa: PTH101, PTH102

import os

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.local import root

STAGE = "/mnt"
SCRATCH = f"{STAGE}/scratch"
"""Where things are while they are put together; it must be gone before anyone else runs."""

INODE_BYTES = 4096
"""One file or directory is allowed for each so many bytes of the disk limit."""

UPPER, TMP, SHM = "upper", "tmp", "shm"
"""Folders of a scratch space: what was written in the working tree, in /tmp, in /dev/shm."""

_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV


def mount_files(layers: list[int], workdir: str, disk_bytes: int) -> int:
    """Mount all that it can write over detached layers, lowest first; returns the scratch space, detached too."""
    kernel.mount("stage", STAGE, "tmpfs", _FLAGS, "mode=0700")
    _mount_scratch(disk_bytes)
    scratch = kernel.clone_tree(SCRATCH)
    _stack(layers, workdir)
    for name, target in ((TMP, "/tmp"), (SHM, "/dev/shm")):
        kernel.attach_tree(kernel.clone_tree(f"{SCRATCH}/{name}"), target)
    os.mkdir(root.HOME)
    return scratch


def clear_stage() -> None:
    """Take down what was only needed to put things together."""
    os.chdir("/")
    kernel.detach(STAGE)


def _mount_scratch(disk_bytes: int) -> None:
    """One tmpfs holds all that the sandbox writes, so that one size limits it all."""
    os.mkdir(SCRATCH)
    options = f"mode=0755,size={disk_bytes},nr_inodes={disk_bytes // INODE_BYTES}"
    kernel.mount("scratch", SCRATCH, "tmpfs", _FLAGS, options)
    for name, mode in ((UPPER, 0o755), (f"{UPPER}-work", 0o755), (TMP, 0o1777), (SHM, 0o1777)):
        os.mkdir(f"{SCRATCH}/{name}")
        os.chmod(f"{SCRATCH}/{name}", mode)


def _stack(layers: list[int], workdir: str) -> None:
    """The working tree at its place. Layers have numbers for paths: a mount's options are one page at most."""
    os.chdir(STAGE)
    for position, layer in enumerate(layers):
        os.mkdir(str(position))
        kernel.attach_tree(layer, str(position))
    lower = ":".join(str(position) for position in reversed(range(len(layers))))
    options = f"lowerdir={lower},upperdir={SCRATCH}/{UPPER},workdir={SCRATCH}/{UPPER}-work,userxattr"
    kernel.mount(UPPER, workdir, "overlay", _FLAGS, options)
