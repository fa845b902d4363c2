"""Configuration files: TOML in, `--a.b value` over it; unknown keys fail, and every fault is one sentence."""

import difflib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from turnsmith.config import Section
from turnsmith.errors import UsageError, first_fault
from turnsmith.types import SamplingParams

SHORTHANDS = {"sandbox": "sandbox.kind"}
"""Options that stand for a key."""
C = TypeVar("C", bound=Section)


def load(path: Path, overrides: list[str], kind: type[C]) -> C:
    """Read a TOML file, lay `--a.b value` pairs over it, check. Raises UsageError that names file and key."""
    return lay_over(read_toml(path), overrides, path, kind)


def lay_over(data: dict[str, Any], overrides: list[str], path: Path, kind: type[C]) -> C:
    """Check what a file at `path` holds, with `--a.b value` pairs over it. Raises UsageError that names file and key."""
    given = [(spell(key, kind), value) for key, value in pair_overrides(overrides)]
    for key, value in given:
        set_key(data, key, value)
    return validate(data, path, kind, given=[key for key, _ in given])


def validate(data: Any, path: Path, kind: type[C], given: Sequence[str] = ()) -> C:
    """Check what a file at `path` holds, laid over by the `given` keys. Raises UsageError that names place and key."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise UsageError(explain(error, path, kind, given)) from None


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file, or say in one sentence why not."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UsageError(f"{path} is no regular file: give the path of a TOML file")
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UsageError(
            f"no configuration file at {path}: give the path of a TOML file, e.g. configs/laptop.toml"
        ) from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder: give the path of a TOML file in it") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}: give the path of a TOML file") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None


def pair_overrides(arguments: list[str]) -> list[tuple[str, Any]]:
    """`["--a.b", "3", "--c=x"]` → `[("a.b", 3), ("c", "x")]`."""
    pairs, rest = [], list(arguments)
    while rest:
        key = rest.pop(0)
        if not key.startswith("--"):
            raise UsageError(f"unexpected argument {key!r}: overrides are written --section.key value")
        key, has_value, value = key[2:].partition("=")
        if not has_value:
            if not rest:
                raise UsageError(f"--{key} needs a value")
            value = rest.pop(0)
        pairs.append((SHORTHANDS.get(key, key), parse_value(value)))
    return pairs


def spell(key: str, kind: type[BaseModel]) -> str:
    """`rft.batch-size` → `rft.batch_size`: dashes where a field has underscores; other names are left as they are."""
    fields = _field_names(kind)
    return ".".join(part.replace("-", "_") if part.replace("-", "_") in fields else part for part in key.split("."))


def parse_value(text: str) -> Any:
    """Numbers, true/false, null, lists and quoted text as in JSON; anything else is text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def set_key(data: dict[str, Any], dotted: str, value: Any) -> None:
    """Set `a.b.c` (list positions as numbers) in nested data; missing tables are made."""
    *parents, last = dotted.split(".")
    node: Any = data
    for name in parents:
        node = _descend(node, name, dotted)
    if isinstance(node, list):
        _descend(node, last, dotted)
        node[int(last)] = value
    elif isinstance(node, dict):
        node[last] = value
    else:
        raise UsageError(f"--{dotted}: {parents[-1]!r} is a value, not a section")


def _descend(node: Any, name: str, dotted: str) -> Any:
    if isinstance(node, dict):
        return node.setdefault(name, {})
    if not isinstance(node, list):
        raise UsageError(f"--{dotted}: {name!r} is inside a value, not a section")
    if not name.isdigit() or int(name) >= len(node):
        raise UsageError(f"--{dotted}: {name!r} is not a position in a list of {len(node)}: give one, from 0")
    return node[int(name)]


def explain(error: ValidationError, path: Path, kind: type[BaseModel], given: Sequence[str]) -> str:
    """The first fault as one sentence: file and command line, key, what, remedy."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    place = " ".join([str(path), *(f"with --{name}" for name in given if _is_related(name, key))])
    if first["type"] == "extra_forbidden":
        return f"{place}: unknown key {key!r}{_suggestion(str(first['loc'][-1]), kind)}"
    if first["type"] == "missing":
        return f"{place}: key {key!r} is missing: add it"
    message = first_fault(error)
    return f"{place}: {key}: {message} (got {_short(first['input'])})" if key else f"{place}: {message}"


def _is_related(one: str, other: str) -> bool:
    """Is one dotted key the other, or inside it?"""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _suggestion(name: str, kind: type[BaseModel]) -> str:
    known = _field_names(kind)
    if name in known:
        return ", a key of another section: move it there (`--dry-run` prints every key in its place)"
    close = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {close[0]!r}?" if close else ": remove it (`--dry-run` prints every key there is)"


def _field_names(kind: type[BaseModel]) -> list[str]:
    """Names of all fields of all sections: good enough to guess a misspelling."""
    sections: list[type[BaseModel]] = [kind, SamplingParams, *Section.__subclasses__()]
    return [name for section in sections for name in section.model_fields]


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "…"
