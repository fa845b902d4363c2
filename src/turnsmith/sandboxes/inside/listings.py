"""Short lists of what pytest's own modules hold: whoever looks in them for hooks and fixtures need not go through every name.

Each run registers some thirty modules, twice, name by name: a third of what a fork had left to do. The lists are for pluggy and
pytest only; whoever else asks a module for its names gets them all.
"""

import sys
from collections.abc import Callable, Collection
from types import CodeType, ModuleType
from typing import Any


def shorten_listings(modules: Collection[ModuleType]) -> None:
    """Remember for each of these plugins, which nobody has changed yet, what is sought in it."""
    from _pytest.fixtures import FixtureManager, getfixturemarker
    from pluggy import PluginManager

    seekers = {PluginManager.register.__code__, FixtureManager.parsefactories.__code__}
    for module in modules:
        names = vars(module)
        sought = [name for name, value in names.items() if name.startswith("pytest_") or getfixturemarker(value)]
        names["__dir__"] = _listing(names, sought, seekers)


def _listing(names: dict[str, Any], sought: list[str], seekers: set[CodeType]) -> Callable[[], list[str]]:
    num_names = len(names) + 1

    def list_names() -> list[str]:
        is_known = len(names) == num_names and sys._getframe(1).f_code in seekers
        return sought if is_known else [name for name in names if name != "__dir__"]

    return list_names
