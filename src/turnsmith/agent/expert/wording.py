"""Wording of the expert's thoughts."""

import random

THOUGHTS = {
    "reproduce": ("Run the failing test.", "Reproduce the failure.", "See how the test fails."),
    "search": ("Find {subject}.", "Search for {subject}.", "Look for {subject}."),
    "open": ("Look at it.", "Open it.", "Read the code."),
    "read_on": ("Read on.", "Show more.", "See the rest."),
    "outline": ("List the functions of {subject}.", "See what {subject} defines."),
    "list": ("List the files.", "See which files there are."),
    "edit": ("{subject}", "Fix it. {subject}"),
    "repair": ("That was wrong. {subject}", "Correct it. {subject}"),
    "create": ("Write {subject}.", "Add {subject}."),
    "remove": ("Remove {subject}.", "Delete {subject}."),
    "test": ("Run the tests.", "Test it.", "See whether it passes now."),
    "submit": ("Done.", "It works."),
    "give_up": ("The code cannot be found.",),
}
"""Kind of a command → thoughts for it, of which each turn draws one."""


def write_thought(act: str, subject: str, rng: random.Random) -> str:
    """Write the thought of a turn."""
    return rng.choice(THOUGHTS[act]).format(subject=subject).strip() or "Fix it."
