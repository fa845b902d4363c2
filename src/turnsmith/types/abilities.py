"""Ability of a task's audit, with the mutants that it needs."""

from dataclasses import dataclass

from turnsmith.types.edits import Edit


@dataclass(frozen=True)
class Mutant:
    """Test function with one wrong expectation or literal."""

    function: str
    """Id of the test function without parameters: `tests/test_a.py::TestX::test_y`."""
    edits: tuple[Edit, ...]
    """Edits of its file."""
    passing: tuple[str, ...] = ()
    """Cases that pass with the gold patch, because they do not reach the edit."""


@dataclass(frozen=True)
class Ability:
    """Ability of one task's audit to reach a verdict."""

    reason: str = ""
    """Reason why it cannot reach one; empty if it can."""
    mutants: tuple[Mutant, ...] = ()
    """Mutants that audits would not draw themselves. No agent may see them."""

    @property
    def can_decide(self) -> bool:
        return not self.reason
