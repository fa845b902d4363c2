"""Types and signatures of the entries of each table of names."""

import inspect

from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.agent.tools.base import Tool
from turnsmith.algo.algorithm import Algorithm
from turnsmith.tasks.sets.base import PublicSet

INSTANCES = {"algorithm": Algorithm, "data set": PublicSet, "scaffold": Scaffold, "tool": Tool}
"""Kind of a table → class of its entries."""
PARAMETERS = {
    "engine": ["setup"],
    "trainer": ["setup", "start"],
    "tracker": ["folder", "name", "config"],
    "sandbox kind": ["config"],
}
"""Kind of a table → parameters by which its entries are called, without `options` and those that have a default."""


def assert_fits(found, kind):
    """Fail unless an entry has the type or the signature that its kind of table demands."""
    if kind in INSTANCES:
        assert isinstance(found, INSTANCES[kind])
        return
    parameters = inspect.signature(found).parameters.values()
    assert [part.name for part in parameters if part.default is part.empty and part.name != "options"] == PARAMETERS[
        kind
    ]
    assert inspect.iscoroutinefunction(found) is (kind in ("engine", "trainer"))
