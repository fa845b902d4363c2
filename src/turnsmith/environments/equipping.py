"""An environment for a working tree: what is found in it, or given, tried from the most faithful recipe to the plainest."""

import shlex
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turnsmith.environments.building import BuildFailed, Environment, build
from turnsmith.environments.discovery import Needs, find_needs
from turnsmith.environments.pythons import choose_python, find_python
from turnsmith.environments.recipe import Recipe

BUILDERS = "--exclude-newer-package setuptools=2024-06-01 --exclude-newer-package wheel=2024-06-01"
"""Newer than the rest, for editable installations; older than the setuptools that brings other packages to light, a plugin of
pytest among them (71), and that which has no `pkg_resources`."""
BASICS = "'setuptools<81' wheel"
"""Suites import `pkg_resources`, which later ones have not."""
UNEDITABLE = (
    "find . -maxdepth 2 -name '*requirements*' -type f -exec sed -i '/^ *-e *[.]/d' {} +",
    "touch -c pyproject.toml setup.py setup.cfg",
)
"""Before a plain installation: files of requirements may name the project itself, and by its time of change uv would take the
project for another that it has built at this path. The tree does not keep this."""
LINKING = Path(__file__).with_name("linking.py").read_text(encoding="utf-8")
LINK = (f"printf %s {shlex.quote(LINKING)} > /environment/linking.py", "python /environment/linking.py")
"""After it: the modules are imported from the tree."""
_building: dict[Path, threading.Lock] = defaultdict(threading.Lock)
_failed: dict[Path, str] = {}
"""Causes, by folder and key of a recipe. On the disk they would outlive a network that was down."""


@dataclass(frozen=True)
class Wishes:
    """What a person, or a row of a data set, asks for."""

    python: str = ""
    commands: tuple[str, ...] = ()
    """In place of all that is found."""
    requirements: tuple[str, ...] = ()
    """Beside what is found."""
    pins: tuple[str, ...] = ()
    """`name==version`, in place of those of a lock file."""


def equip(
    contents: Mapping[str, bytes],
    layers: tuple[Path, ...],
    workdir: str,
    folder: Path,
    *,
    date: str,
    version: str,
    wishes: Wishes,
    stopped: threading.Event,
) -> Environment:
    """Build the first recipe that can be built, or take what is there; safe to call from several threads.

    `date` and `version` are those of the tree. Raises BuildFailed with the cause of the last one, BuildStopped, UsageError.
    """
    failed: BuildFailed | None = None
    for recipe in list_recipes(find_needs(contents), date, version, wishes):
        try:
            return _build_once(recipe, layers, workdir, folder, stopped)
        except BuildFailed as error:
            failed = error
    raise failed or BuildFailed("no recipe was found")


def list_recipes(needs: Needs, date: str, version: str, wishes: Wishes) -> Iterator[Recipe]:
    """List recipes with all that was found, as a lock file pins it, with packages of that day, of today.

    Then come the files of requirements alone, which may contradict the rest, and in the end the project alone with pytest.
    A plain installation, linked to the tree, follows for builds that know no editable one (PEP 660).
    """
    found = (
        find_python(wishes.python) if wishes.python else choose_python(needs.requires_python, date, needs.classifiers)
    )
    recipe = Recipe(str(found.version), wishes.commands, needs.digests, version)
    if wishes.commands:
        yield recipe
        return
    requirements = tuple(dict.fromkeys((*needs.requirements, *wishes.requirements)))
    needs = replace(needs, requirements=requirements, pins=wishes.pins or needs.pins)
    day, unpinned = end_of_quarter(date), replace(needs, pins=())
    files = replace(unpinned, requirements=("pytest",))
    alone = replace(files, files=())
    most = [(needs, "")] * bool(needs.pins) + [(unpinned, day), (unpinned, ""), (files, day)]
    least = [(alone, day), (replace(alone, extras=()), day)]
    for group in (most, least):
        tries = [list_commands(*each) for each in group]
        tries += [list_commands(*each, is_editable=False) for each in group if needs.is_installable]
        yield from (replace(recipe, commands=commands) for commands in dict.fromkeys(tries))


def list_commands(needs: Needs, day: str, *, is_editable: bool = True) -> tuple[str, ...]:
    """Install the packages that were found, of no later day than given, and the project with its code in the working tree."""
    install = f"uv pip install --exclude-newer {day} {BUILDERS}" if day else "uv pip install"
    pins = [f"printf '%s\\n' {shlex.join(needs.pins)} > /environment/pins.txt"] if needs.pins else []
    bound = " -c /environment/pins.txt" if pins else ""
    wanted = [*(word for file in needs.files for word in ("-r", file)), *needs.requirements]
    project = shlex.quote(f".[{','.join(needs.extras)}]" if needs.extras else ".")
    if not needs.is_installable:
        return (*pins, f"{install} {BASICS} {shlex.join(wanted)}{bound}")
    if is_editable:
        return (*pins, f"{install} {BASICS} {shlex.join(wanted)} -C editable_mode=compat -e {project}{bound}")
    return (*pins, *UNEDITABLE, f"{install} {BASICS} {shlex.join(wanted)} {project}{bound}", *LINK)


def end_of_quarter(date: str) -> str:
    """The day on which the next quarter begins: `2020-05-03T…` → `2020-07-01`. Commits of one quarter share their packages."""
    year, month = int(date[:4]), int(date[5:7])
    first = (month - 1) // 3 * 3 + 4
    return f"{year}-{first:02}-01" if first <= 12 else f"{year + 1}-01-01"


def _build_once(
    recipe: Recipe, layers: Sequence[Path], workdir: str, folder: Path, stopped: threading.Event
) -> Environment:
    """One thread builds, others wait; what has failed fails again at once, for as long as this process lives."""
    place = folder / recipe.key
    with _building[place]:
        if place in _failed:
            raise BuildFailed(_failed[place])
        try:
            return build(recipe, tuple(layers), workdir, folder, stopped)
        except BuildFailed as error:
            _failed[place] = str(error)
            raise
