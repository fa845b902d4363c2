"""The teacher: plays lessons with the real tools. Clean, it solves them; with faults, it has the habits of an untrained model."""

import random
import re
from dataclasses import dataclass, field

from tiny_base.lessons import Lesson


@dataclass(frozen=True)
class Faults:
    """How often the teacher errs; all probabilities."""

    format_error: float = 0.0
    """Per turn: the block is malformed."""
    early_submit: float = 0.0
    """Per turn before the fix: submits instead."""
    guess_file: float = 0.0
    """Per episode: opens a module at random instead of searching."""
    wrong_fix: float = 0.0
    """Per episode: writes something else than the fix."""
    edit_share: float = 0.25
    """Share of fixes made with `edit` rather than `replace`; not a fault."""


CLEAN = Faults()
HABITS = Faults(format_error=0.15, early_submit=0.1, guess_file=0.25, wrong_fix=0.3)


@dataclass
class Teacher:
    """Plays one lesson; `answer` has the form that a scripted engine asks for."""

    lesson: Lesson
    faults: Faults
    rng: random.Random
    plan: list[tuple[str, str]] = field(default_factory=list)
    """Turns to come, as (thought, command)."""

    def __post_init__(self) -> None:
        self.plan = self.make_plan()

    def make_plan(self) -> list[tuple[str, str]]:
        """Search, open, fix, submit."""
        lesson, chance = self.lesson, self.rng.random
        path = f"./{lesson.path}"
        search = (f"Find {lesson.function}.", f'grep -rn "def {lesson.function}" .')
        look = ("Look at it.", f"open {path} {lesson.def_line}")
        if chance() < self.faults.guess_file:
            where = self.rng.choice([*lesson.other_paths, "README.md"])
            search, look = ("Guess.", f"open {where}"), ("Look.", f"open {path}")
        turns = [search, look, ("Fix it.", self.fix()), ("Done.", "submit")]
        for index in range(3):
            if chance() < self.faults.early_submit:
                return [*turns[:index], ("Done.", "submit")]
        return turns

    def fix(self) -> str:
        """The command that mends the bug, or means to."""
        lesson = self.lesson
        new = list(lesson.new_lines)
        if self.rng.random() < self.faults.wrong_fix:
            new = spoil(new, self.rng)
        unique = lesson.buggy.count("\n".join(lesson.old_lines).strip()) == 1
        if unique and self.rng.random() >= self.faults.edit_share:
            old_text, new_text = strip_indent(lesson.old_lines, new)
            return f"replace {quote(old_text)} {quote(new_text)}"
        last = lesson.first_line + len(lesson.old_lines) - 1
        return f"edit {lesson.first_line}:{last} << 'EOF'\n" + "\n".join(new) + "\nEOF"

    def answer(self, episode_id: str, turn: int, history: str) -> str:
        """The next turn as text; a malformed block leaves the plan where it was."""
        thought, command = self.plan[0]
        if self.rng.random() < self.faults.format_error:
            return malform(thought, command, self.rng)
        self.plan.pop(0)
        return f"{thought}\n```command\n{command}\n```"


def strip_indent(old_lines: tuple[str, ...], new_lines: list[str]) -> tuple[str, str]:
    """Both texts without the indentation of the first old line, which stays in the file."""
    indent = len(old_lines[0]) - len(old_lines[0].lstrip())
    kept = min(indent, *(len(line) - len(line.lstrip()) for line in (old_lines[0], new_lines[0])))
    return "\n".join(old_lines)[kept:], "\n".join(new_lines)[kept:]


def quote(text: str) -> str:
    """Shell quotes around a text."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def spoil(lines: list[str], rng: random.Random) -> list[str]:
    """A fix that mends nothing: another operator, or one name for another."""
    text = "\n".join(lines)
    operators = list(re.finditer(r" (\+|-|\*|<=|>=|<|>|==) ", text))
    names = list(re.finditer(r"\b[a-z]{3,}\b", text))
    if operators and rng.random() < 0.5:
        found = rng.choice(operators)
        sign = rng.choice([s for s in ("+", "-", "*", "<", ">") if s != found[1]])
        return (text[: found.start(1)] + sign + text[found.end(1) :]).split("\n")
    if not names:
        return [*lines[:-1], lines[-1] + "0"]
    found, other = rng.choice(names), rng.choice(names)
    return (text[: found.start()] + other[0] + text[found.end() :]).split("\n")


def malform(thought: str, command: str, rng: random.Random) -> str:
    """The two format errors that the paper names, and a block without its word."""
    tool, _, rest = command.partition(" ")
    return rng.choice(
        [
            f"{thought}\n```{tool} {rest}\n```",
            f"{thought}\n```command\n{command}\n```\n```command\nsubmit\n```",
            f"{thought}\n{command}",
        ]
    )
