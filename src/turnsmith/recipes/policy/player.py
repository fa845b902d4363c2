"""Who plays: the policy at hand, or the model of an endpoint, for which none of ours is loaded."""

from typing import Protocol

from turnsmith.agent.dialogues.base import Speaker
from turnsmith.config import RunConfig
from turnsmith.recipes.policy.endpoint import KIND, open_endpoint
from turnsmith.runs.folder import RunFolder
from turnsmith.tracking import Progress


class Player(Protocol):
    """What plays episodes."""

    @property
    def speaker(self) -> Speaker:
        """What they are said in."""

    async def close(self) -> None:
        """Nothing more is asked of it."""


async def open_player(config: RunConfig, folder: RunFolder, progress: Progress) -> Player:
    """What the configuration names; account and logs of servers go to the run folder. Raises UsageError, and EngineError."""
    if config.engine.kind == KIND:
        return await open_endpoint(config, folder.costs, progress)
    # Imports torch, which an endpoint's run does without.
    from turnsmith.recipes.policy.local import load_policy

    return load_policy(config, folder.server_logs)
