"""Process that runs one install command of an environment, with environment and working tree at the paths that sandboxes use.

So the installed scripts and editable installations record paths that are valid in sandboxes. The process reads its request
from stdin. Unlike a sandbox, it sees the host's whole file system.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.local.identity import HOST_IDS
from turnsmith.sandboxes.inside.local.root import ENVIRONMENT

ROOT, STAGE = "/tmp", ".stage"
UPPER, WORK = "upper", "work"
"""Names of the upper and the work directory of the overlay over the working tree."""


@dataclass(frozen=True)
class Workplace:
    """Request to run one install command: the command, and the paths to mount for it."""

    environment: str
    """Host folder of the environment, mounted at `/environment`."""
    layers: list[str]
    """Host folders that are stacked to make the working tree, lowest first."""
    changes: str
    """Host folder with the overlay's directories `upper` and `work`."""
    workdir: str
    command: list[str]

    def dumps(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    """Read a request from stdin, mount its folders, then exec its command."""
    place = Workplace(**json.loads(sys.stdin.read()))
    try:
        _enter_namespaces()
        _arrange(place)
    except OSError as error:
        sys.exit(f"this machine cannot build environments ({error}): Linux namespaces and overlayfs are needed")
    os.chdir(place.workdir)
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    os.execvp(place.command[0], place.command)


def _enter_namespaces() -> None:
    """Enter a private mount namespace; user and group ids stay the same."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0 and Path("/proc/self/uid_map").read_text().split() == HOST_IDS:
        kernel.unshare(kernel.CLONE_NEWNS)
    else:
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
        lines = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
        for name, line in lines.items():
            Path(f"/proc/self/{name}").write_text(line)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)


def _arrange(place: Workplace) -> None:
    """Enter a new root directory with the entries of the old root, the environment and the working tree."""
    places = {path.name: path for path in Path("/").iterdir()}
    links = {name: path.readlink() for name, path in places.items() if path.is_symlink()}
    trees = {name: kernel.clone_tree(str(path)) for name, path in places.items() if path.is_dir() and name not in links}
    staged = [kernel.clone_tree(path) for path in [*place.layers, place.changes, place.environment]]
    kernel.mount("workplace", ROOT, "tmpfs", 0, "mode=0755")
    os.chdir(ROOT)
    for name, tree in trees.items():
        _attach(tree, name)
    for name, target in links.items():
        Path(name).symlink_to(target)
    _attach(staged.pop(), ENVIRONMENT.lstrip("/"))
    for number, tree in enumerate(staged):
        _attach(tree, f"{STAGE}/{number}")
    _stack(len(place.layers), place.workdir.lstrip("/"))
    kernel.pivot_root(".", ".")
    kernel.detach(".")
    os.chdir("/")


def _attach(tree: int, place: str) -> None:
    Path(place).mkdir(parents=True, exist_ok=True)
    kernel.attach_tree(tree, place)


def _stack(num_layers: int, workdir: str) -> None:
    """Mount an overlay of the working tree's host folders at the workdir. Files written there go to the folder `changes`."""
    Path(workdir).mkdir(parents=True, exist_ok=True)
    lower = ":".join(f"{STAGE}/{number}" for number in reversed(range(num_layers)))
    changes = f"{STAGE}/{num_layers}"
    options = f"lowerdir={lower},upperdir={changes}/{UPPER},workdir={changes}/{WORK},userxattr"
    kernel.mount("tree", workdir, "overlay", 0, options)


if __name__ == "__main__":
    main()
