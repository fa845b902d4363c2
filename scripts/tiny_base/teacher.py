"""The teacher: plays lessons with the real tools. Clean, it solves them; with faults, it has the habits of an untrained model."""

import random
import re
from collections.abc import Sequence
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


CLEAN = Faults()
HABITS = Faults(format_error=0.15, early_submit=0.15, guess_file=0.25, wrong_fix=0.3)


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
        """The command that writes the function's body anew, as its docstring says, or means to."""
        lesson, body = self.lesson, list(self.lesson.body)
        if self.rng.random() < self.faults.wrong_fix:
            body = spoil(body, self.rng)
        return write_edit(lesson.first_line, lesson.last_line, body)

    def answer(self, episode_id: str, turn: int, history: str) -> str:
        """The next turn as text; a malformed block leaves the plan where it was."""
        thought, command = self.plan[0]
        if self.rng.random() < self.faults.format_error:
            return malform(thought, command, self.rng)
        self.plan.pop(0)
        return f"{thought}\n```command\n{command}\n```"


def write_edit(first: int, last: int, body: Sequence[str]) -> str:
    """The command that puts a new body in the place of lines first to last."""
    return f"edit {first}:{last} << 'EOF'\n" + "\n".join(body) + "\nEOF"


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
