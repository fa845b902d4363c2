"""`submit`: the agent says that it is done.

The paper's tool sends what a plain `git diff` shows, which loses staged changes and new files. We differ on purpose: the
patch is taken from outside the sandbox, so it holds new and staged files alike, and the state of git's index does not matter.
"""

from turnsmith.agent.tools.base import Call, Kit, Reply, Tool, Workspace


async def submit(call: Call, workspace: Workspace, kit: Kit) -> Reply:
    """End the episode; the loop takes the patch."""
    return Reply("Submitted.", workspace, submitted=True)


SUBMIT = Tool("submit", "Submit the code as it is now and end the session.", submit)
