"""Recipes: evaluation, rejection fine-tuning, reinforcement learning, and runs that combine them.

`run_recipe` starts or resumes a run, as `turnsmith run` does. `policy` opens engines and trainers, `review` examines
finished runs, `solve` works on a checkout. Commands and views import this package. Recipes print nothing and parse
no command line.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnsmith.recipes.recipe import run_recipe

__all__ = ["run_recipe"]


def __getattr__(name: str) -> Any:
    """Import `run_recipe` only at its first use. The import takes a second, and views need only other modules."""
    if name != "run_recipe":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from turnsmith.recipes.recipe import run_recipe

    return run_recipe
