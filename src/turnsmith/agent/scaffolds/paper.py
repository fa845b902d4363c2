"""Scaffold of the paper (§3.3, §3.4): nine tools, a window that shows part of one open file, and shell commands."""

from turnsmith.agent.prompts import PACKAGED
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.agent.tools.editing import CREATE, EDIT, REPLACE
from turnsmith.agent.tools.searching import SEARCH_FILE
from turnsmith.agent.tools.submission import SUBMIT
from turnsmith.agent.tools.viewing import GOTO, OPEN, SCROLL_DOWN, SCROLL_UP

PAPER = Scaffold(
    tools=(CREATE, EDIT, GOTO, OPEN, REPLACE, SCROLL_DOWN, SCROLL_UP, SEARCH_FILE, SUBMIT),
    prompts=PACKAGED / "paper",
    shell_prompt="(Current directory: {cwd}, current file: {file}) bash-$",
)
