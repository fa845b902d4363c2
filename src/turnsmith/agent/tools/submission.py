"""`submit`: the agent says that it is done.

The paper's tool sends what a plain `git diff` shows, which loses staged changes and new files. We differ on purpose: the
patch is taken from outside the sandbox, so it holds new and staged files alike, and the state of git's index does not matter.
"""

from turnsmith.agent.tools.base import Call, Session, Tool, ToolContext, ToolResult


async def submit(call: Call, session: Session, context: ToolContext) -> ToolResult:
    """End the episode; the loop takes the patch."""
    return ToolResult("Submitted.", session, submitted=True)


SUBMIT = Tool("submit", "Submit the code as it is now and end the session.", submit)
