"""The working tree that an image holds, as a folder of the cache: what sandboxes copy, and what their patches are against."""

import hashlib
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.sandboxes.containers.images import Image
from turnsmith.sandboxes.containers.owners import LABEL
from turnsmith.sandboxes.containers.podman import ask, remove
from turnsmith.sandboxes.runtime import prepare_folder

_ABSENT = "could not be found"
"""How podman says that there is nothing at a path."""


def find_tree(program: str, image: Image, workdir: str, name: str) -> tuple[Path, ...]:
    """The files at an image's workdir, if any, copied out once by a container of that name. Raises UsageError."""
    key = hashlib.sha256(f"{image.identity}\0{workdir}".encode()).hexdigest()[:16]
    folder = prepare_folder(f"image-{key}", lambda folder: _copy_out(program, image, workdir, name, folder))
    return (folder,) if any(folder.iterdir()) else ()


def _copy_out(program: str, image: Image, workdir: str, name: str, folder: Path) -> None:
    owner = name.rpartition("-")[0]
    ask(program, ["create", "--pull=never", f"--label={LABEL}={owner}", f"--name={name}", image.identity, "true"])
    try:
        fault = f"{program} could not copy {workdir} out of the image"
        ask(program, ["cp", f"{name}:{workdir}/.", str(folder)], fault=fault)
    except UsageError as error:
        if _ABSENT not in str(error):
            raise
    finally:
        remove(program, name)
