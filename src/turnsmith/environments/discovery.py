"""Requirements of a repository's tests, read from its project files.

No code of the repository is run or imported; `setup.py` is only searched by patterns.
"""

import configparser
import hashlib
import json
import posixpath
import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from turnsmith.errors import UsageError

TESTS = re.compile(r"(.*[_-])?(tests?|testing|unit-?tests?)", re.IGNORECASE)
DEVELOPMENT = re.compile(r"(.*[_-])?(dev|develop|development|ci)", re.IGNORECASE)
"""Pattern of the names of extras, groups and files for development. They are used only if none is named for tests."""
FILE = re.compile(
    r"(requirements?|reqs)([-_./].*)?\.(txt|in|pip)|.*[-_]requirements?\.txt|requirements/.*\.(txt|in|pip)"
)
UNWANTED = re.compile(
    r"min|minimum|lowest|oldest|docs?|sphinx|lint|typing|mypy|flake8|ruff|release|coverage|bench.*|pre-?commit|build|examples?"
)
"""Words in the name of an extra, a group or a file that exclude it from the test requirements."""
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
LOCKS = ("uv.lock", "poetry.lock", "pdm.lock")
COMPILED = re.compile(
    r".*\.(pyx|pxd|pxi|pyx\.in|c|cc|cpp|cxx|h|hpp|rs)|(.*/)?(Cargo\.(toml|lock)|meson\.build|CMakeLists\.txt)"
)
"""Pattern of source files that an installation compiles. A changed file leads to a new environment."""
BUILDING = {"setuptools", "setuptools_scm", "poetry", "hatch", "flit", "pdm", "maturin", "scikit-build", "cython"}
"""`[tool]` tables in `pyproject.toml` that affect the installation. A change in others does not lead to a new environment."""
IDLE = {"version", "description", "readme", "authors", "maintainers", "keywords", "classifiers", "urls", "license"}
"""Keys of `[project]` in `pyproject.toml` whose change does not lead to a new environment."""
INCLUDED = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[ =]*(\S+)", re.MULTILINE)
"""Pattern of lines by which a requirements file includes another. A change in the other one leads to a new environment too."""
VERSION_LINE = re.compile(r"^\s*(__)?version(__)?\s*=.*$", re.MULTILINE)
"""Pattern of lines that state the project's version. Digests of project files leave them out."""
VERSION_KEY = re.compile(r'"version": "[^"]*",?')
TEST_FILE = re.compile(r"(.*/)?(tests?/.*|test_[^/]*|[^/]*_tests?|conftest)\.py")
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+(\w[\w., \t]*)|.*\bimportorskip\([\"'](\w+))", re.MULTILINE)
MODULES = {"beautifulsoup4": "bs4", "pillow": "pil", "pymongo": "bson", "scikit-learn": "sklearn"}
"""Package → name of the module that it installs, if it differs by more than a prefix such as `py` or `python-`."""
CARET = re.compile(r"[\^~](?=\d)")
"""Pattern of the caret or tilde in Poetry's version bounds, such as `^1.2`. Both are translated to `>=`."""


@dataclass(frozen=True)
class Requirements:
    """Requirements found in a repository."""

    is_installable: bool
    """True if pip can install the project."""
    extras: tuple[str, ...]
    requirements: tuple[str, ...]
    """Requirement `pytest`, and the requirements that dependency groups, Poetry, Hatch and tox declare."""
    files: tuple[str, ...]
    """Paths of the requirements files to install."""
    pins: tuple[str, ...]
    """Versions that a lock file pins, as `name==version`."""
    requires_python: str
    classifiers: tuple[str, ...]
    """Minor Python versions that the project's classifiers name, such as `3.9`."""
    digests: Mapping[str, str]
    """Path → digest, for every file that affects the installation or is compiled by it."""


def find_requirements(tree: Mapping[str, bytes]) -> Requirements:
    """Read a repository's requirements from its files, given as path → content. Raises UsageError if a file is invalid."""
    try:
        return _find_requirements(tree)
    except (AttributeError, KeyError, TypeError) as error:
        what = "the repository's files that declare requirements have an invalid structure"
        raise UsageError(f"{what}: {type(error).__name__}: {error}") from None


def _find_requirements(tree: Mapping[str, bytes]) -> Requirements:
    project, settings = _read_toml(tree, "pyproject.toml"), _read_settings(tree)
    files = _choose_files(tree)
    imported = _find_imports(tree, project, settings)
    requirements = [*_of_groups(project, imported), *_of_poetry(project), *_of_hatch(project), *_of_tox(tree), "pytest"]
    read = [path for path in (*PROJECT_FILES, *LOCKS, "tox.ini", *_follow(tree, files)) if path in tree]
    compiled = [path for path in sorted(tree) if COMPILED.fullmatch(path)]
    metadata = project.get("project", {})
    return Requirements(
        is_installable=bool({"project", "build-system"} & project.keys()) or "setup.py" in tree,
        extras=tuple(_choose_needed(_list_extras(project, settings, tree), imported)),
        requirements=tuple(dict.fromkeys(filter(_is_requirement, requirements))),
        files=tuple(files),
        pins=tuple(_read_pins(tree)),
        requires_python=_find_requires_python(project, settings, tree),
        classifiers=tuple(_find_classifiers(metadata.get("classifiers", []), tree)),
        digests={path: _digest(path, tree[path]) for path in [*read, *compiled]},
    )


def _digest(path: str, content: bytes) -> str:
    """Hash a project file, without versions, descriptions and settings that do not affect the installation."""
    text = VERSION_LINE.sub("", content.decode(errors="replace"))
    if path == "pyproject.toml":
        project = tomllib.loads(content.decode())
        stated = {name: value for name, value in project.get("project", {}).items() if name not in IDLE}
        tools = {name: value for name, value in project.get("tool", {}).items() if name in BUILDING}
        text = json.dumps([stated, tools, project.get("build-system"), project.get("dependency-groups")], default=str)
        text = VERSION_KEY.sub("", text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read_toml(tree: Mapping[str, bytes], path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(tree.get(path, b"").decode())
    except ValueError as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def _read_settings(tree: Mapping[str, bytes], path: str = "setup.cfg") -> configparser.RawConfigParser:
    settings = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        settings.read_string(tree.get(path, b"").decode(errors="replace"))
    except configparser.Error as error:
        raise UsageError(f"{path} cannot be read: {error.message.splitlines()[0]}") from None
    return settings


def _choose(names: Iterable[str]) -> list[str]:
    """Choose those names of extras, groups or files that are for tests; if there are none, those for development."""
    named = [name for name in names if not any(map(UNWANTED.fullmatch, re.split(r"[-_]", name.lower())))]
    return [name for name in named if TESTS.fullmatch(name)] or [name for name in named if DEVELOPMENT.fullmatch(name)]


def _choose_needed(declared: Mapping[str, Sequence[str]], imported: Collection[str]) -> list[str]:
    """Choose the extras or groups for tests. Add the smallest further ones that install other modules which tests import."""
    chosen = _choose(declared)
    brought = {module for name in chosen for module in _name_modules(name, declared[name])}
    for name in sorted(declared, key=lambda name: len(declared[name])):
        modules = _name_modules(name, declared[name])
        if name not in chosen and not modules.isdisjoint(set(imported) - brought):
            chosen.append(name)
            brought |= modules
    return chosen


def _name_modules(name: str, requirements: Iterable[str]) -> set[str]:
    """Guess the modules that an extra installs: one named like the extra, and one per required package."""
    packages = [canonicalize_name(Requirement(text).name) for text in requirements if _is_requirement(text)]
    names = [MODULES.get(package, package) for package in (canonicalize_name(name), *packages)]
    return {re.sub(r"^(python[-_]?|py)(?=\w)", "", module).replace("-", "_") for module in names} | {*names}


def _find_imports(
    tree: Mapping[str, bytes], project: Mapping[str, Any], settings: configparser.RawConfigParser
) -> set[str]:
    """Find the third-party modules that tests import, as lower-case names."""
    texts = [content.decode(errors="replace") for path, content in tree.items() if TEST_FILE.fullmatch(path)]
    found = [
        name for text in texts for groups in IMPORT.findall(text) for name in re.split(r"[\s,]+", " ".join(groups))
    ]
    modules = {name.partition(".")[0].lower() for name in found} - {""} - sys.stdlib_module_names
    own = [project.get("project", {}).get("name", ""), settings.get("metadata", "name", fallback="")]
    return modules - {canonicalize_name(name).replace("-", "_") for name in filter(None, own)}


def _choose_files(tree: Mapping[str, bytes]) -> list[str]:
    """Choose `requirements.txt`, `requirements/test.txt` and similar files; of `x.in` and the compiled `x.txt`, only `x.txt`."""
    names = {path: _name_file(path) for path in sorted(tree) if path.count("/") <= 1 and FILE.fullmatch(path)}
    compiled = {path.removesuffix(".txt") + ".in" for path in names if path.endswith(".txt")}
    names = {path: name for path, name in names.items() if path not in compiled}
    chosen = _choose(names.values())
    return [path for path, name in names.items() if not name or name in chosen]


def _follow(tree: Mapping[str, bytes], files: Iterable[str]) -> list[str]:
    """List the given requirements files and all files that they include."""
    waiting, found = [*files], list[str]()
    while waiting:
        path = waiting.pop()
        if path in tree and path not in found:
            found.append(path)
            names = INCLUDED.findall(tree[path].decode(errors="replace"))
            waiting += [posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) for name in names]
    return sorted(found)


def _name_file(path: str) -> str:
    """Return the purpose in a requirements file's name: `requirements/unit-tests.txt` → `unit-tests`; empty if there is none."""
    words = re.split(r"[-_./]", path.rpartition(".")[0].lower())
    return "-".join(word for word in words if word not in ("requirements", "requirement", "reqs"))


def _is_requirement(text: str) -> bool:
    try:
        return not Requirement(text).url
    except InvalidRequirement:
        return False


def _list_extras(
    project: Mapping[str, Any], settings: configparser.RawConfigParser, tree: Mapping[str, bytes]
) -> dict[str, list[str]]:
    """Map each extra to its requirements. Test extras named in `setup.py` map to empty lists, since it is not run."""
    script = tree.get("setup.py", b"").decode(errors="replace")
    named = re.findall(r"['\"](tests?|testing|dev)['\"]\s*[:\]]", script) if "extras_require" in script else []
    section = "options.extras_require"
    stated = settings.items(section) if settings.has_section(section) else []
    return {
        **{name: list[str]() for name in named},
        **{name: (text or "").splitlines() for name, text in stated},
        **project.get("tool", {}).get("poetry", {}).get("extras", {}),
        **project.get("project", {}).get("optional-dependencies", {}),
    }


def _of_groups(project: Mapping[str, Any], imported: Collection[str]) -> Iterator[str]:
    """Yield the requirements of groups for tests or with `imported` modules (PEP 735), and of pdm's `dev-dependencies`."""
    groups = project.get("dependency-groups", {})
    unfolded = {name: [*_unfold(groups, name, frozenset())] for name in groups}
    for name in _choose_needed(unfolded, imported):
        yield from unfolded[name]
    older = project.get("tool", {}).get("pdm", {}).get("dev-dependencies", {})
    for name in _choose(older):
        yield from older[name]


def _unfold(groups: Mapping[str, Any], name: str, above: frozenset[str]) -> Iterator[str]:
    """Yield the requirements of a dependency group and of the groups that it includes; stop at cycles."""
    for entry in groups.get(name, []) if name not in above else []:
        if isinstance(entry, str):
            yield entry
        elif "include-group" in entry:
            yield from _unfold(groups, entry["include-group"], above | {name})


def _of_poetry(project: Mapping[str, Any]) -> Iterator[str]:
    poetry = project.get("tool", {}).get("poetry", {})
    groups = poetry.get("group", {})
    chosen = [groups[name].get("dependencies", {}) for name in _choose(groups)]
    for entries in (poetry.get("dev-dependencies", {}), *chosen):
        for name, entry in entries.items():
            version = entry if isinstance(entry, str) else entry.get("version", "*") if isinstance(entry, dict) else "*"
            yield name + _translate(version)


def _translate(version: str) -> str:
    """Translate a version bound of Poetry to pip: `^1.2` → `>=1.2`, `*` → no bound, `1.2` → `==1.2`."""
    bounds = [CARET.sub(">=", bound.strip()) for bound in version.split(",") if bound.strip(" *")]
    return ",".join(bound if bound[0] in "<>=!~" else f"=={bound}" for bound in bounds)


def _of_hatch(project: Mapping[str, Any]) -> Iterator[str]:
    for name, environment in project.get("tool", {}).get("hatch", {}).get("envs", {}).items():
        if name == "default" or TESTS.fullmatch(name) or name.startswith("hatch-test"):
            yield from environment.get("dependencies", [])
            yield from environment.get("extra-dependencies", [])


def _of_tox(tree: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the requirements of tox's `[testenv]`, without those that apply only to one factor, such as `py39:`."""
    settings = _read_settings(tree, "tox.ini")
    if settings.has_option("testenv", "deps"):
        for line in (settings.get("testenv", "deps") or "").splitlines():
            name = line.partition("#")[0].strip()
            if name and not name.startswith("-") and not re.match(r"[\w,!.-]+\s*:", name) and "{" not in name:
                yield name


def _read_pins(tree: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the pins (`name==version`) of the repository's lock file; skip packages with several versions."""
    lock = next((path for path in LOCKS if path in tree), "")
    versions: dict[str, set[str]] = {}
    for package in _read_toml(tree, lock).get("package", []) if lock else []:
        if "version" in package and not {"editable", "virtual", "git", "directory"} & set(package.get("source") or {}):
            versions.setdefault(canonicalize_name(package["name"]), set()).add(package["version"])
    yield from (f"{name}=={next(iter(found))}" for name, found in sorted(versions.items()) if len(found) == 1)


def _find_requires_python(
    project: Mapping[str, Any], settings: configparser.RawConfigParser, tree: Mapping[str, bytes]
) -> str:
    script = re.search(r"python_requires\s*=\s*['\"]([^'\"]+)['\"]", tree.get("setup.py", b"").decode(errors="replace"))
    poetry = project.get("tool", {}).get("poetry", {}).get("dependencies", {}).get("python", "")
    stated = [
        project.get("project", {}).get("requires-python", ""),
        _translate(poetry) if isinstance(poetry, str) and "|" not in poetry else "",
        settings.get("options", "python_requires") if settings.has_option("options", "python_requires") else "",
        script[1] if script else "",
    ]
    return next(filter(None, stated), "")


def _find_classifiers(classifiers: Iterable[str], tree: Mapping[str, bytes]) -> list[str]:
    texts = [*classifiers, *(tree.get(path, b"").decode(errors="replace") for path in ("setup.py", "setup.cfg"))]
    found = {name for text in texts for name in re.findall(r"Programming Language :: Python :: (3\.\d+)", text)}
    return sorted(found, key=lambda name: int(name.partition(".")[2]))
