"""Records of whether a task's audit can reach a verdict, and of the mutants that it needs."""

from dataclasses import dataclass

from turnsmith.types.edits import Edit


@dataclass(frozen=True)
class Mutant:
    """Mutant of a test: one expectation or other literal of a test function is made wrong."""

    function: str
    """Id of the test function without parameters: `tests/test_a.py::TestX::test_y`."""
    edits: tuple[Edit, ...]
    """Edits of the test file that make the mutant."""
    passing: tuple[str, ...] = ()
    """Parametrized cases that pass with the gold patch, because they do not reach the edit."""


@dataclass(frozen=True)
class Ability:
    """Ability of one task's audit to reach a verdict."""

    reason: str = ""
    """Reason why the audit cannot reach a verdict; empty if it can."""
    mutants: tuple[Mutant, ...] = ()
    """Mutants found by `tasks qualify` that audits do not find themselves; never shown to an agent."""

    @property
    def can_decide(self) -> bool:
        return not self.reason
