"""The shell alone: an agent sees, searches and changes files with the programs of the image, and ends with `submit`.

`submit` is a command of its own, not a text in an output, so nothing that a program prints can end an episode.
"""

from turnsmith.agent.prompts import PACKAGED
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.agent.tools.submission import SUBMIT

BASH = Scaffold(tools=(SUBMIT,), prompts=PACKAGED / "bash", shell_prompt="{cwd} $")
