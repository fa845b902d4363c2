"""What a task from a history stands on: the tree of a commit, an environment for it, and one commit over both."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from turnsmith.environments.equipping import Wishes, equip
from turnsmith.git.history import GitHistory, find_date, find_version, read_snapshot
from turnsmith.synthesis.mining.trees import TreeStore, complete_layers

WORKDIR = "/testbed"
UNBUILT = "environment could not be built"


@dataclass(frozen=True)
class Base:
    """The base of a task, on the disk."""

    commit: str
    """The only one of its history."""
    layers: tuple[Path, ...]
    """Lowest first."""
    environment: Path
    absent: tuple[str, ...]
    """Paths that the repository lacked."""

    def describe(self, folder: Path) -> dict[str, Any]:
        """The columns of a task whose file lies in that folder."""
        return {
            "base_commit": self.commit,
            "workdir": WORKDIR,
            "layers": [layer.relative_to(folder).as_posix() for layer in self.layers],
            "environment": self.environment.relative_to(folder).as_posix(),
        }


async def make_base(
    store: TreeStore, name: str, history: GitHistory, commit: str, *, date: str, wishes: Wishes
) -> Base:
    """The base of the task `name`, with packages of a date, or else of the commit's; in a thread, which ends with its waiter.

    Raises BuildFailed, UsageError.
    """
    stopped = Event()

    def make() -> Base:
        snapshot = read_snapshot(history, commit)
        layer = store.write(name, snapshot.tree)
        environment = equip(
            {path: file.content for path, file in snapshot.tree.items()},
            (layer,),
            WORKDIR,
            store.folder,
            date=date or find_date(history, commit),
            version=find_version(history, commit),
            wishes=wishes,
            stopped=stopped,
        )
        layers, base_commit = complete_layers(layer, snapshot.tree, environment)
        return Base(base_commit, layers, environment.folder, snapshot.absent)

    try:
        return await asyncio.to_thread(make)
    finally:
        stopped.set()
