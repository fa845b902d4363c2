"""The shell alone: an agent sees, searches and changes files with the programs of the image, and ends with `submit`.

`submit` is a command of its own, not a text in an output, so nothing that a program prints can end an episode.
"""

from turnsmith.agent.prompts import PACKAGED
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.agent.tools.base import Session
from turnsmith.agent.tools.submission import SUBMIT


def shell_prompt(session: Session) -> str:
    """The directory, which is kept from command to command."""
    return f"{session.cwd} $"


BASH = Scaffold(tools=(SUBMIT,), prompts=PACKAGED / "bash", shell_prompt=shell_prompt)
