"""Scaffold with the shell alone: the image's programs, and `submit` to end.

`submit` is parsed as a command, so that no program output can end an episode.
"""

from turnsmith.agent.prompts import PACKAGED
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.agent.tools.submission import SUBMIT

BASH = Scaffold(tools=(SUBMIT,), prompts=PACKAGED / "bash", shell_prompt="{cwd} $")
