"""Results of the check whether audits of a task's patches can reach a verdict, and changed copies of its tests."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import AnyStr, NamedTuple


class Edit(NamedTuple):
    """Replacement of a span of characters."""

    start: int
    end: int
    text: str


def replace_spans(text: AnyStr, edits: Iterable[tuple[int, int, AnyStr]]) -> AnyStr:
    """Replace `text[start:end]` for each `(start, end, new)`; spans must not overlap."""
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + new + text[end:]
    return text


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
