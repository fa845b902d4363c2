"""Tables of the built-in scaffolds and tools."""

from turnsmith.config.names import NameTable

SCAFFOLDS = NameTable(
    "scaffold",
    {
        "bash": "turnsmith.agent.scaffolds.bash:BASH",
        "paper": "turnsmith.agent.scaffolds.paper:PAPER",
    },
)
"""Name of each built-in scaffold → import path of its `Scaffold` object."""
TOOLS = NameTable(
    "tool",
    {
        "create": "turnsmith.agent.tools.editing:CREATE",
        "edit": "turnsmith.agent.tools.editing:EDIT",
        "goto": "turnsmith.agent.tools.viewing:GOTO",
        "open": "turnsmith.agent.tools.viewing:OPEN",
        "replace": "turnsmith.agent.tools.editing:REPLACE",
        "scroll_down": "turnsmith.agent.tools.viewing:SCROLL_DOWN",
        "scroll_up": "turnsmith.agent.tools.viewing:SCROLL_UP",
        "search_file": "turnsmith.agent.tools.searching:SEARCH_FILE",
        "submit": "turnsmith.agent.tools.submission:SUBMIT",
    },
)
"""Name of each built-in tool → import path of its `Tool` object."""
