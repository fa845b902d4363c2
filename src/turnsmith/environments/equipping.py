"""Environment for a working tree: recipes are tried from the most faithful to the simplest."""

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
"""Build tools of a fixed date: new enough for editable installations, older than setuptools 71 (which exposes
vendored packages, among them a pytest plugin) and than the releases without `pkg_resources`.
"""
BASICS = "'setuptools<81' wheel"
"""Build tools; later setuptools versions lack `pkg_resources`, which test suites import."""
UNEDITABLE = (
    "find . -maxdepth 2 -name '*requirements*' -type f -exec sed -i '/^ *-e *[.]/d' {} +",
    "touch -c pyproject.toml setup.py setup.cfg",
)
"""Commands before a plain installation: remove the project itself from requirements files, and update modification
times, since uv would reuse an earlier build at the same path. The tree does not keep these changes.
"""
# Part of the commands, so every change of that file, comments included, changes the keys of environments.
LINKING = Path(__file__).with_name("linking.py").read_text(encoding="utf-8")
LINK = (f"printf %s {shlex.quote(LINKING)} > /environment/linking.py", "python /environment/linking.py")
"""Commands after a plain installation: make modules importable from the tree."""
_building: dict[Path, threading.Lock] = defaultdict(threading.Lock)
_failed: dict[Path, str] = {}
"""Environment path → cause of failure. Not stored on disk, since a failure may be temporary."""


@dataclass(frozen=True)
class Wishes:
    """Explicit wishes of a user or of a data set row."""

    python: str = ""
    commands: tuple[str, ...] = ()
    """Commands that replace everything discovered."""
    requirements: tuple[str, ...] = ()
    """Requirements added to the discovered ones."""
    pins: tuple[str, ...] = ()
    """`name==version`, in place of a lock file's pins."""


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
    """Build the first recipe that succeeds, or reuse its environment; thread-safe.

    `date` and `version` describe the tree. Raises BuildFailed with the last recipe's cause, BuildStopped, UsageError.
    """
    failed: BuildFailed | None = None
    for recipe in list_recipes(find_needs(contents), date, version, wishes):
        try:
            return _build_once(recipe, layers, workdir, folder, stopped)
        except BuildFailed as error:
            failed = error
    raise failed or BuildFailed("no recipe was found")


def list_recipes(needs: Needs, date: str, version: str, wishes: Wishes) -> Iterator[Recipe]:
    """Yield recipes, most faithful first: pinned by a lock file, packages of that date, current packages.

    Then requirements files alone (they may contradict the rest), and at last the project with pytest only. Each group is repeated
    with plain installations, for builds without editable ones (PEP 660).
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
    """List the commands that install the requirements, no newer than a date, and the project from the working tree."""
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
    """Return the first day of the next quarter, so that commits of a quarter share packages: `2020-05-03T…` → `2020-07-01`."""
    year, month = int(date[:4]), int(date[5:7])
    first = (month - 1) // 3 * 3 + 4
    return f"{year}-{first:02}-01" if first <= 12 else f"{year + 1}-01-01"


def _build_once(
    recipe: Recipe, layers: Sequence[Path], workdir: str, folder: Path, stopped: threading.Event
) -> Environment:
    """Build a recipe in one thread while others wait. A failed recipe fails again without a build in this process."""
    place = folder / recipe.key
    with _building[place]:
        if place in _failed:
            raise BuildFailed(_failed[place])
        try:
            return build(recipe, tuple(layers), workdir, folder, stopped)
        except BuildFailed as error:
            _failed[place] = str(error)
            raise
