"""The working tree that an image holds, as a folder of the cache: what sandboxes copy, and what their patches are against."""

import hashlib
import subprocess
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.sandboxes.containers.images import Image
from turnsmith.sandboxes.containers.owners import LABEL
from turnsmith.sandboxes.containers.podman import ask, read_complaint, remove
from turnsmith.sandboxes.runtime import prepare_folder

_ABSENT = "could not be found"
"""How podman says that there is nothing at a path."""


def find_tree(program: str, image: Image, workdir: str, name: str) -> tuple[Path, ...]:
    """The folder with the files at the workdir of an image, none where there are none; copied out once for each image.

    It takes a container by that name. Raises UsageError.
    """
    key = hashlib.sha256(f"{image.identity}\0{workdir}".encode()).hexdigest()[:16]
    folder = prepare_folder(f"image-{key}", lambda folder: _copy_out(program, image, workdir, name, folder))
    return (folder,) if any(folder.iterdir()) else ()


def _copy_out(program: str, image: Image, workdir: str, name: str, folder: Path) -> None:
    owner = name.rpartition("-")[0]
    ask(program, ["create", "--pull=never", f"--label={LABEL}={owner}", f"--name={name}", image.identity, "true"])
    try:
        complaint = _unpack([program, "cp", f"{name}:{workdir}/.", "-"], folder)
        if complaint and _ABSENT not in complaint:
            raise UsageError(f"{program} could not copy {workdir} out of the image: {complaint}")
    finally:
        remove(program, name)


def _unpack(command: list[str], folder: Path) -> str:
    """Unpack the tar file that a command prints; returns its complaint, empty where it had none."""
    packing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert packing.stdout and packing.stderr
    with packing, packing.stdout, packing.stderr:
        unpacking = subprocess.run(
            ["tar", "-x", "--no-same-owner", "-C", folder], stdin=packing.stdout, stderr=subprocess.PIPE
        )
        complaint = packing.stderr.read()
    if packing.returncode:
        return read_complaint(complaint.decode(errors="replace"))
    return read_complaint(unpacking.stderr.decode(errors="replace")) if unpacking.returncode else ""
