"""The seal on a test report: a word, new for each run, that pytest writes and the code under test was not told.

Only sealed lines count, and only if pytest came to its end. So a summary that the code under test writes, to whatever
descriptor, and a process that it ends before its time score nothing. What this does not stop: the code runs in the process of
pytest, and where it searches that process for the word, or replaces parts of pytest, it can still lie.
"""

import secrets
from pathlib import Path
from shlex import quote

PLUGIN = Path(__file__).with_name("sealing.py").read_text(encoding="utf-8")


def draw_mark() -> str:
    """A word that nobody guesses."""
    return secrets.token_hex(16)


def seal(command: str) -> str:
    """The command, with the plugin beside the tree; its pytest reads the mark from standard input.

    The command must hand its environment on to one pytest. The module's name is new each time: nothing in the tree can stand in
    for it.
    """
    name = f"sealing_{secrets.token_hex(8)}"
    write = f'printf %s {quote(PLUGIN)} > "$HOME/{name}.py"'
    return f'{write}; export PYTEST_PLUGINS={name} PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$HOME"; {command}'


def read_sealed(log: str, mark: str) -> str:
    """The sealed lines without their mark; nothing where pytest did not come to its end."""
    sealed = [line.removeprefix(f"{mark} ") for line in log.split("\n") if line.startswith(f"{mark} ")]
    return "\n".join(sealed) if is_finished(log, mark) else ""


def is_finished(log: str, mark: str) -> bool:
    """Did pytest come to its end?"""
    return mark in log.split("\n")


def unseal(log: str, mark: str) -> str:
    """The log as if nothing had been sealed."""
    return "\n".join(line.removeprefix(f"{mark} ") for line in log.split("\n") if line != mark)
