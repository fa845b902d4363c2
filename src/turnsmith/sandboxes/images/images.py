"""Lookup of container images by name, import of root file systems, and host copies of the working trees that images hold."""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.sandboxes.podman import LABEL, ask
from turnsmith.sandboxes.runtime import prepare_folder

_ROOTS = ("", "0", "root")
_ABSENT = "could not be found"
"""Part of podman's error message for a path that an image lacks. The copy of this path is then empty instead of an error."""


@dataclass(frozen=True)
class Image:
    """Container image on this machine."""

    identity: str
    """Content hash of the image, which podman calls its id."""
    environment: dict[str, str]
    home: str


def find_image(program: str, name: str) -> Image:
    """Find an image by name; if the name is a path, import that root file system first. Raises UsageError if it is missing."""
    if not name:
        raise UsageError("a container needs an image: set the task's `image`, or --sandbox.image")
    try:
        reference = import_root(program, Path(name)) if name.startswith(("/", ".")) else name
    except OSError as error:
        raise UsageError(f"the image {name} cannot be read: {error}") from None
    if not list_images(program, reference):
        remedy = f"`{program} pull {reference}` brings it, and `turnsmith tasks images PATH --pull` all of a task file"
        raise UsageError(f"there is no image {reference} on this machine: {remedy}")
    [facts] = json.loads(ask(program, ["image", "inspect", reference]))
    config = facts.get("Config") or {}
    environment = dict(variable.split("=", 1) for variable in config.get("Env") or [])
    home = environment.get("HOME") or ("/root" if config.get("User", "").split(":")[0] in _ROOTS else "/tmp")
    return Image(facts["Id"].removeprefix("sha256:"), environment, home)


def list_images(program: str, reference: str) -> list[str]:
    """List the content hashes of the images with a given name."""
    return ask(program, ["images", "--quiet", "--no-trunc", reference]).split()


def import_root(program: str, root: Path) -> str:
    """Import a root file system (folder or tar file) as an image, if it is new or changed. Return the image's name."""
    if not root.exists():
        raise UsageError(f"there is no root file system at {root}: give a folder, a tar file, or the name of an image")
    reference = name_root(root)
    if list_images(program, reference):
        return reference
    if root.is_dir():
        _import_folder(program, root, reference)
    else:
        fault = f"{program} could not import {root}, which must be a tar file of a root file system"
        ask(program, ["import", str(root), reference], fault=fault)
    return reference


def _import_folder(program: str, root: Path, reference: str) -> None:
    """Import a folder as an image, by a pipe from tar, which keeps owners, links and modes."""
    packing = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
    assert packing.stdout
    with packing, packing.stdout:
        fault = f"{program} could not import the folder {root}"
        ask(program, ["import", "-", reference], stdin=packing.stdout.fileno(), fault=fault)


def name_root(root: Path) -> str:
    """Name a root file system by a hash of its files' sizes, modes and modification times."""
    paths = sorted(root.rglob("*")) if root.is_dir() else [root]
    digest = hashlib.sha256(os.fsencode(root.resolve()))
    for path in paths:
        status = path.lstat()
        seen = f"{path}\0{status.st_mode}\0{status.st_size}\0{status.st_mtime_ns}\0"
        digest.update(seen.encode(errors="surrogateescape"))
    return f"localhost/turnsmith-root:{digest.hexdigest()[:16]}"


def find_tree(program: str, image: Image, workdir: str, owner: str) -> tuple[Path, ...]:
    """Return the cached copy of an image's files at the workdir, as one folder in a tuple; () if there are none.

    `owner` is the label of the temporary container out of which the files are copied.
    """
    place = hashlib.sha256(workdir.encode()).hexdigest()[:16]
    folder = prepare_folder(
        f"image-{image.identity[:16]}-{place}", lambda folder: _copy_out(program, image, workdir, owner, folder)
    )
    return (folder,) if any(folder.iterdir()) else ()


def _copy_out(program: str, image: Image, workdir: str, owner: str, folder: Path) -> None:
    container = ask(program, ["create", "--pull=never", f"--label={LABEL}={owner}", image.identity, "true"]).strip()
    try:
        fault = f"{program} could not copy {workdir} out of the image"
        ask(program, ["cp", f"{container}:{workdir}/.", str(folder)], fault=fault)
    except UsageError as error:
        if _ABSENT not in str(error):
            raise
    finally:
        ask(program, ["rm", container])
