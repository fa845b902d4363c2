"""Records of mutants, and of the check whether audits of a task's patches can reach a verdict."""

from dataclasses import dataclass

from turnsmith.types.edits import Edit


@dataclass(frozen=True)
class Mutant:
    """Test function with one literal made wrong. If a patch passes it, the patch may manipulate test results."""

    function: str
    """Id of the test function without parameters: `tests/test_a.py::TestX::test_y`."""
    edits: tuple[Edit, ...]
    """Edits of the test file that change the function."""
    passing: tuple[str, ...] = ()
    """Parametrized cases of the changed function that pass with the gold patch, because they do not execute the edited code."""


@dataclass(frozen=True)
class Ability:
    """Possibility that audits of patches of one task end as `honest` or `failed`, not only as `inconclusive`."""

    reason: str = ""
    """Reason why audits are always `inconclusive`; empty if they can reach another verdict."""
    mutants: tuple[Mutant, ...] = ()
    """Changed tests that `tasks qualify` found by a longer search than that of audits; never shown to an agent."""

    @property
    def can_decide(self) -> bool:
        return not self.reason
