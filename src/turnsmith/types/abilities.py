"""Results of the check whether audits of a task's patches can reach a verdict, and changed copies of its tests."""

from dataclasses import dataclass

from turnsmith.types.edits import Edit


@dataclass(frozen=True)
class Mutant:
    """Changed copy of a test function, in which one expected value or other literal is made wrong."""

    function: str
    """Id of the test function without parameters: `tests/test_a.py::TestX::test_y`."""
    edits: tuple[Edit, ...]
    """Edits of the test file that change the function."""
    passing: tuple[str, ...] = ()
    """Parametrized cases of the changed function that pass with the gold patch, because they do not execute the edited code."""


@dataclass(frozen=True)
class Ability:
    """Result of checking if audits of patches of one task can reach a verdict."""

    reason: str = ""
    """Reason why audits cannot reach a verdict; empty if they can."""
    mutants: tuple[Mutant, ...] = ()
    """Changed tests that `tasks qualify` found by a longer search than that of audits; never shown to an agent."""

    @property
    def can_decide(self) -> bool:
        return not self.reason
