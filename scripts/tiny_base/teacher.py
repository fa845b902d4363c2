"""Scripted teacher that plays lessons with the real tools, with or without faults."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tiny_base.lessons import Lesson
from turnsmith.agent.expert.mistakes import spoil


@dataclass(frozen=True)
class Faults:
    """Probabilities of the teacher's faults."""

    format_error: float = 0.0
    """Per turn: a malformed command block."""
    early_submit: float = 0.0
    """Per turn before the fix: a submission without it."""
    guess_file: float = 0.0
    """Per episode: a random module is opened instead of a search."""
    wrong_fix: float = 0.0
    """Per episode: a wrong fix."""


CLEAN = Faults()
HABITS = Faults(format_error=0.15, early_submit=0.15, guess_file=0.25, wrong_fix=0.3)


@dataclass
class Teacher:
    """Teacher for one lesson; `answer` is a callback of `ScriptedEngine`."""

    lesson: Lesson
    faults: Faults
    rng: random.Random
    plan: list[tuple[str, str]] = field(default_factory=list)
    """Remaining turns as (thought, command)."""

    def __post_init__(self) -> None:
        self.plan = self.make_plan()

    def make_plan(self) -> list[tuple[str, str]]:
        """Plan the turns: search, open, fix, submit."""
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
        """Return the command that replaces the function's body, correctly or with a fault."""
        lesson, body = self.lesson, list(self.lesson.body)
        if self.rng.random() < self.faults.wrong_fix:
            body = spoil(body, self.rng)
        return write_edit(lesson.first_line, lesson.last_line, body)

    def answer(self, episode_id: str, turn: int, history: str) -> str:
        """Return the next turn as text. A malformed block does not advance the plan."""
        thought, command = self.plan[0]
        if self.rng.random() < self.faults.format_error:
            return malform(thought, command, self.rng)
        self.plan.pop(0)
        return f"{thought}\n```command\n{command}\n```"


def write_edit(first: int, last: int, body: Sequence[str]) -> str:
    """Return the command that replaces lines `first` to `last` by a new body."""
    return f"edit {first}:{last} << 'EOF'\n" + "\n".join(body) + "\nEOF"


def malform(thought: str, command: str, rng: random.Random) -> str:
    """Return one of the paper's two format errors, or a command without a block."""
    tool, _, rest = command.partition(" ")
    return rng.choice(
        [
            f"{thought}\n```{tool} {rest}\n```",
            f"{thought}\n```command\n{command}\n```\n```command\nsubmit\n```",
            f"{thought}\n{command}",
        ]
    )
