"""Choice of an environment for a working tree: try recipes until one builds, from the project's pins to pytest alone."""

import shlex
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turnsmith.environments.building import BuildFailed, Environment, Recipe, build
from turnsmith.environments.discovery import Requirements, find_requirements
from turnsmith.environments.pythons import choose_python, find_python

BUILDERS = "--exclude-newer-package setuptools=2024-06-01 --exclude-newer-package wheel=2024-06-01"
"""uv options that take the newest setuptools and wheel before a fixed date.

These versions support editable installations. They precede setuptools 71, which makes its vendored packages importable,
among them a plugin that pytest could load.
"""
BASICS = "'setuptools<81' wheel"
"""Build tools in every environment. Later setuptools versions lack `pkg_resources`, which test suites import."""
UNEDITABLE = (
    "find . -maxdepth 2 -name '*requirements*' -type f -exec sed -i '/^ *-e *[.]/d' {} +",
    "touch -c pyproject.toml setup.py setup.cfg",
)
"""Commands before an installation that is not editable. The first removes the project itself from requirements files.

The second updates modification times, since uv would reuse an earlier build at the same path. Both change only an overlay,
which keeps no changed file after the build.
"""
# Part of the commands, so every change of that file, comments included, changes the keys of environments.
LINKING = Path(__file__).with_name("linking.py").read_text(encoding="utf-8")
LINK = (f"printf %s {shlex.quote(LINKING)} > /environment/linking.py", "python /environment/linking.py")
"""Commands after an installation that is not editable: they make Python import the project from the working tree."""
_building: dict[Path, threading.Lock] = defaultdict(threading.Lock)
_failed: dict[Path, str] = {}
"""Path of an environment → cause of its failed build. Not stored on disk, since a failure may be temporary."""


@dataclass(frozen=True)
class EnvironmentOptions:
    """Options of an environment that a user or a row of a data set gives."""

    python: str = ""
    commands: tuple[str, ...] = ()
    """Install commands that replace all commands derived from the repository's files."""
    requirements: tuple[str, ...] = ()
    """Requirements in addition to those found in the repository's files."""
    pins: tuple[str, ...] = ()
    """Pins, as `name==version`, which replace those of the repository's lock file."""


def build_first_working(
    contents: Mapping[str, bytes],
    layers: tuple[Path, ...],
    workdir: str,
    folder: Path,
    *,
    date: str,
    version: str,
    options: EnvironmentOptions,
    stopped: threading.Event,
) -> Environment:
    """Return the environment of the first recipe that can be built; thread-safe.

    `date` and `version` are those of the working tree's commit. Raises BuildFailed with the last recipe's cause,
    BuildStopped, UsageError.
    """
    failed: BuildFailed | None = None
    for recipe in list_recipes(find_requirements(contents), date, version, options):
        try:
            return _build_once(recipe, layers, workdir, folder, stopped)
        except BuildFailed as error:
            failed = error
    raise failed or BuildFailed("no recipe was found for the environment")


def list_recipes(required: Requirements, date: str, version: str, options: EnvironmentOptions) -> Iterator[Recipe]:
    """Yield recipes in the order in which to try them, from all requirements to pytest alone.

    The order is: (1) pins of the lock file, (2) packages of the commit's date, (3) current packages, (4) only the requirements
    files, which may contradict other requirements. Then (1) to (4) follow without editable installations, which some build
    tools lack (PEP 660). The last recipes install the project with only pytest.
    """
    found = (
        find_python(options.python)
        if options.python
        else choose_python(required.requires_python, date, required.classifiers)
    )
    recipe = Recipe(str(found.version), options.commands, required.digests, version)
    if options.commands:
        yield recipe
        return
    requirements = tuple(dict.fromkeys((*required.requirements, *options.requirements)))
    required = replace(required, requirements=requirements, pins=options.pins or required.pins)
    day, unpinned = end_of_quarter(date), replace(required, pins=())
    files = replace(unpinned, requirements=("pytest",))
    alone = replace(files, files=())
    most = [(required, "")] * bool(required.pins) + [(unpinned, day), (unpinned, ""), (files, day)]
    least = [(alone, day), (replace(alone, extras=()), day)]
    for group in (most, least):
        tries = [list_commands(*each) for each in group]
        tries += [list_commands(*each, is_editable=False) for each in group if required.is_installable]
        yield from (replace(recipe, commands=commands) for commands in dict.fromkeys(tries))


def list_commands(required: Requirements, day: str, *, is_editable: bool = True) -> tuple[str, ...]:
    """List the commands that install the project and its requirements, in versions released before `day` (empty: any)."""
    install = f"uv pip install --exclude-newer {day} {BUILDERS}" if day else "uv pip install"
    pins = [f"printf '%s\\n' {shlex.join(required.pins)} > /environment/pins.txt"] if required.pins else []
    bound = " -c /environment/pins.txt" if pins else ""
    wanted = [*(word for file in required.files for word in ("-r", file)), *required.requirements]
    project = shlex.quote(f".[{','.join(required.extras)}]" if required.extras else ".")
    if not required.is_installable:
        return (*pins, f"{install} {BASICS} {shlex.join(wanted)}{bound}")
    if is_editable:
        return (*pins, f"{install} {BASICS} {shlex.join(wanted)} -C editable_mode=compat -e {project}{bound}")
    return (*pins, *UNEDITABLE, f"{install} {BASICS} {shlex.join(wanted)} {project}{bound}", *LINK)


def end_of_quarter(date: str) -> str:
    """Return the first day after a date's quarter (all its commits get the same versions): `2020-05-03T…` → `2020-07-01`."""
    year, month = int(date[:4]), int(date[5:7])
    first = (month - 1) // 3 * 3 + 4
    return f"{year}-{first:02}-01" if first <= 12 else f"{year + 1}-01-01"


def _build_once(
    recipe: Recipe, layers: Sequence[Path], workdir: str, folder: Path, stopped: threading.Event
) -> Environment:
    """Build a recipe's environment once per process, even if the build fails; other threads that need it wait."""
    place = folder / recipe.key
    with _building[place]:
        if place in _failed:
            raise BuildFailed(_failed[place])
        try:
            return build(recipe, tuple(layers), workdir, folder, stopped)
        except BuildFailed as error:
            _failed[place] = str(error)
            raise
