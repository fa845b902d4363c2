"""Tables of short names and their import paths, and import of the objects that a configuration names.

Each package has the table of its own names. Import paths are text, so an object is imported only if it is selected.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic import ValidationError

from turnsmith.config.extras import EXTRA_OF, describe_missing
from turnsmith.config.section import Section
from turnsmith.errors import UsageError, first_fault

T = TypeVar("T")
S = TypeVar("S", bound=Section)

IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True)
class NameTable:
    """Short names of one kind of object, such as algorithms; any import path is accepted as well."""

    kind: str
    """Noun for messages, such as `algorithm`."""
    paths: dict[str, str]
    """Import paths `package.module:attribute` by short name."""

    def check(self, name: str) -> str:
        """Return the name if it is a known name or an import path, without importing it. Raises UsageError otherwise."""
        if name in self.paths or IMPORT_PATH.fullmatch(name):
            return name
        raise UsageError(
            f"there is no {self.kind} {name!r}: give {', '.join(self.paths)}, "
            "or an import path as my_package.my_module:name"
        )

    def load(self, name: str) -> Any:
        """Import the object of a short name or import path. Raises UsageError if it is missing or its module fails."""
        module_name, _, attribute = self.paths.get(self.check(name), name).partition(":")
        module = _import(module_name, f"{self.kind} {name}")
        if not hasattr(module, attribute):
            raise UsageError(f"the module {module_name} has no {attribute!r}: give a name that it defines")
        return getattr(module, attribute)

    def load_instance(self, name: str, cls: type[T]) -> T:
        """Import an instance of a class. Raises UsageError for an object of another class."""
        found = self.load(name)
        if not isinstance(found, cls):
            raise UsageError(f"{self.kind} {name} is a {type(found).__name__}: give a {cls.__module__}.{cls.__name__}")
        return found

    def bind(self, name: str, options: Mapping[str, Any], key: str) -> Any:
        """Load a function or class, and bind its parameter `options`, if it has one, to the options under a key.

        The annotation of the parameter is the class of the options. Raises UsageError for wrong options.
        """
        found = self.load(name)
        if not callable(found):
            raise UsageError(f"{self.kind} {name} is a {type(found).__name__}: give a function or a class")
        parameter = inspect.signature(found).parameters.get("options")
        cls = parameter.annotation if parameter else Section
        if isinstance(cls, str):  # in a module with `from __future__ import annotations`
            with suppress(AttributeError):
                cls = attrgetter(cls)(sys.modules[found.__module__])
        if not (isinstance(cls, type) and issubclass(cls, Section)):
            raise UsageError(
                f"{self.kind} {name}: annotate `options` with a class derived from turnsmith.config.Section"
            )
        read = read_options(cls, options, key, name)
        return partial(found, options=read) if parameter else found


def read_options(
    cls: type[S], given: Mapping[str, Any], key: str, owner: str, shared: Mapping[str, Any] | None = None
) -> S:
    """Validate the options of `owner` below `key`. `shared` gives fields of `cls` that come from elsewhere in the configuration.

    Raises UsageError for an unknown option or a wrong value.
    """
    shared = shared or {}
    if unknown := next((name for name in given if name not in cls.model_fields), None):
        known = ", ".join(name for name in cls.model_fields if name not in shared) or "none"
        raise UsageError(f"{key}.{unknown} is unknown to {owner}: its options are {known}")
    try:
        return cls(**shared, **given)
    except ValidationError as error:
        name = ".".join([key, *map(str, error.errors()[0]["loc"])])
        raise UsageError(f"{name}: {first_fault(error)}") from None


def _import(name: str, owner: str) -> ModuleType:
    """Import a module for a named owner, searching the working directory after the installed ones, as `python -m` does."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ImportError) and error.name in EXTRA_OF:
            raise UsageError(describe_missing(error.name, name)) from None
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise UsageError(
                f"{owner}: there is no module {error.name}: install it, or start in the folder that holds it"
            ) from None
        fault = f"{type(error).__name__}: {error}"
        raise UsageError(f"{name} cannot be imported ({fault}): `python -c 'import {name}'` shows where") from error
