"""Tool `submit`, by which the agent ends the episode.

The paper's tool submits a plain `git diff`, which omits staged changes and new files. Turnsmith computes the patch outside
the sandbox, and includes staged changes and new files.
"""

from turnsmith.agent.tools.base import Call, Session, Tool, ToolContext, ToolResult


async def submit(call: Call, session: Session, context: ToolContext) -> ToolResult:
    """End the episode; the episode's loop computes the patch."""
    return ToolResult("Submitted.", session, submitted=True)


SUBMIT = Tool("submit", "Submit the code as it is now and end the session.", submit)
