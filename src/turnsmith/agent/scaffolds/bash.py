"""Scaffold without tools except `submit`: the agent uses the shell and the programs in the image.

`submit` is parsed from the agent's command, so that no program's output can end an episode.
"""

from turnsmith.agent.prompts import PACKAGED
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.agent.tools.submission import SUBMIT

BASH = Scaffold(tools=(SUBMIT,), prompts=PACKAGED / "bash", shell_prompt="{cwd} $")
