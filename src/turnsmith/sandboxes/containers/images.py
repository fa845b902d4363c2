"""Images: by name, or from a root file system that lies in a folder or a tar file."""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.sandboxes.containers.podman import ask, understanding

_ROOTS = ("", "0", "root")


@dataclass(frozen=True)
class Image:
    """An image that is on this machine."""

    identity: str
    """Hash of its content."""
    environment: dict[str, str]
    home: str


def find_image(program: str, name: str) -> Image:
    """The image of that name, imported first where it names a folder or a tar file. Raises UsageError where there is none."""
    if not name:
        raise UsageError("a container needs an image: set the task's `image`, or --sandbox.image")
    try:
        reference = import_root(program, Path(name)) if is_path(name) else name
        return inspect_image(program, reference)
    except OSError as error:
        raise UsageError(f"the image {name} cannot be read: {error}") from None


def is_path(name: str) -> bool:
    """Names of images begin with neither."""
    return name.startswith(("/", "."))


def inspect_image(program: str, reference: str) -> Image:
    """What the engine knows of an image. Raises UsageError where there is none."""
    if not list_images(program, reference):
        raise UsageError(f"there is no image {reference} on this machine: `{program} pull {reference}` brings it")
    answer = ask(program, ["image", "inspect", reference])
    with understanding(program):
        return _read_facts(*json.loads(answer))


def _read_facts(facts: Any) -> Image:
    config = facts.get("Config") or {}
    environment = dict(variable.split("=", 1) for variable in config.get("Env") or [])
    home = environment.get("HOME") or ("/root" if config.get("User", "").split(":")[0] in _ROOTS else "/tmp")
    return Image(facts["Id"].removeprefix("sha256:"), environment, home)


def list_images(program: str, reference: str) -> list[str]:
    """Identities of the images by that name; by identity an image always is there or is not."""
    return ask(program, ["images", "--quiet", "--no-trunc", reference]).split()


def import_root(program: str, root: Path) -> str:
    """The name under which the engine keeps a root file system; it is read once for each state of it."""
    if not root.exists():
        raise UsageError(f"there is no root file system at {root}: give a folder, a tar file, or the name of an image")
    reference = name_root(root)
    if not list_images(program, reference):
        _import_folder(program, root, reference) if root.is_dir() else _import_tar(program, root, reference)
    return reference


def _import_tar(program: str, root: Path, reference: str) -> None:
    fault = f"{program} could not import {root}, which must be a tar file of a root file system"
    ask(program, ["import", str(root), reference], fault=fault)


def _import_folder(program: str, root: Path, reference: str) -> None:
    """By a pipe from tar, which keeps owners, links and modes."""
    packing = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
    assert packing.stdout
    with packing, packing.stdout:
        fault = f"{program} could not import the folder {root}"
        ask(program, ["import", "-", reference], stdin=packing.stdout.fileno(), fault=fault)


def name_root(root: Path) -> str:
    """Changes with any file of it, by size and time of change."""
    paths = sorted(root.rglob("*")) if root.is_dir() else [root]
    digest = hashlib.sha256(os.fsencode(root.resolve()))
    for path in paths:
        status = path.lstat()
        seen = f"{path}\0{status.st_mode}\0{status.st_size}\0{status.st_mtime_ns}\0"
        digest.update(seen.encode(errors="surrogateescape"))
    return f"localhost/turnsmith-root:{digest.hexdigest()[:16]}"
