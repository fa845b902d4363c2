"""Records of the ability to audit a task, and of the test mutants that audits need."""

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
    """Result of checking if audits of patches of one task can reach a verdict."""

    reason: str = ""
    """Reason why audits cannot reach a verdict; empty if they can."""
    mutants: tuple[Mutant, ...] = ()
    """Mutants found by `tasks qualify` that audits do not find themselves; never shown to an agent."""

    @property
    def can_decide(self) -> bool:
        return not self.reason
