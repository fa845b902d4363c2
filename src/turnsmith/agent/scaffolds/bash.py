"""Scaffold without tools except `submit`: the agent uses the shell and the programs in the image.

Turnsmith looks for `submit` in the agent's command, and not in the output of programs, so no output can end an episode.
"""

from turnsmith.agent.prompts import PACKAGED
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.agent.tools.submission import SUBMIT

BASH = Scaffold(tools=(SUBMIT,), prompts=PACKAGED / "bash", shell_prompt="{cwd} $")
