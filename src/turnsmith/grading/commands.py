"""Parser of test commands that only start pytest, and therefore need no shell."""

import re
import shlex

from turnsmith.sandboxes.base import PytestCommand

_PLAIN = r"[\w@%+:,./=^-]"
_QUOTED = r"""'[^'\n]*'|"[^"$`\\!\n]*\""""
_WORD = rf"(?:{_PLAIN}|{_QUOTED})+"
_ASSIGNMENT = re.compile(rf"([A-Za-z_]\w*)=((?:{_WORD})?) +", re.ASCII)
_SEARCH_PATH = re.compile(r"PYTHONPATH=(\"?)([\w@%+:,./-]+):\$(?:PYTHONPATH|\{PYTHONPATH\})\1 +", re.ASCII)
_PYTEST = re.compile(rf"(?:(python3?) +-m +pytest|(pytest))((?: +{_WORD})*) *", re.ASCII)

_NEEDING_SHELL = re.compile(
    r"BASH.*|LANG.*|LC_.*|LD_.*|LOCPATH|GLIBC_.*|MALLOC_.*|PYTHON.*|PYTEST_PLUGINS|"
    r"ENV|E?UID|PPID|SHELLOPTS|POSIXLY_CORRECT|IFS|PATH|HOME|PWD|OLDPWD|SHLVL|_"
)
"""Pattern of variables. Commands that set one run in a shell, since shells or Python read it at start, or the grader sets it."""


def read_plain(command: str) -> PytestCommand | None:
    """Parse a plain pytest command; return None if it needs a shell.

    Plain commands have the form `NAME=value … python -m pytest arguments`, with `python`, `python3` or `pytest`. Words may be
    quoted. The only expansion is `PYTHONPATH=folder:$PYTHONPATH`.
    """
    variables: dict[str, str] = {}
    search_path: tuple[str, ...] = ()
    while match := _SEARCH_PATH.match(command) or _ASSIGNMENT.match(command):
        command = command[match.end() :]
        if match.re is _SEARCH_PATH:
            search_path = tuple(match[2].split(":"))
        elif _NEEDING_SHELL.fullmatch(match[1]):
            return None
        else:
            variables[match[1]] = "".join(shlex.split(match[2]))
    plain = _PYTEST.fullmatch(command)
    return plain and PytestCommand(tuple(shlex.split(plain[3])), plain[1] or plain[2], variables, search_path)
