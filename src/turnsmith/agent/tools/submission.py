"""Tool `submit`: the agent declares its work finished.

The paper's tool submits a plain `git diff`, which loses staged changes and new files. Here the patch is computed outside the
sandbox and includes both, whatever git's index contains.
"""

from turnsmith.agent.tools.base import Call, Session, Tool, ToolContext, ToolResult


async def submit(call: Call, session: Session, context: ToolContext) -> ToolResult:
    """End the episode; the loop computes the patch."""
    return ToolResult("Submitted.", session, submitted=True)


SUBMIT = Tool("submit", "Submit the code as it is now and end the session.", submit)
