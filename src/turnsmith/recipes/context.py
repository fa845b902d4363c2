"""Everything that a run works with, handed from step to step."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.algo.algorithm import Metrics
from turnsmith.audit.auditor import Auditor
from turnsmith.config import AgentConfig, RFTConfig, RunConfig, StageConfig
from turnsmith.recipes.policy.player import Player
from turnsmith.rollouts.generator import Generator
from turnsmith.rollouts.inspection import Inspector
from turnsmith.rollouts.rollout import draw_seed
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking import Progress
from turnsmith.tracking.feed import Feed

if TYPE_CHECKING:
    from turnsmith.recipes.policy.local import Policy


@dataclass(frozen=True)
class RunContext:
    """Who plays, the tasks, and what makes and keeps rollouts."""

    config: RunConfig
    folder: RunFolder
    player: Player
    scaffold: Scaffold
    generator: Generator
    auditor: Auditor
    train_tasks: TaskSet
    """Empty where nothing is trained."""
    eval_tasks: list[TaskSet]
    progress: Progress
    feed: Feed
    """Sends what is finished to the trackers."""

    @property
    def policy(self) -> "Policy":
        """The one that learns, in what trains: an endpoint's run trains nothing."""
        from turnsmith.recipes.policy.local import Policy

        assert isinstance(self.player, Policy)
        return self.player

    def agent_for(self, limits: RFTConfig | StageConfig) -> AgentConfig:
        """What the agent gets, under the limits of a part of the run."""
        return self.config.agent.model_copy(update={"max_turns": limits.max_turns, "max_context": limits.max_context})

    def open_inspection(self, *, is_alarmed: bool = False) -> Inspector | None:
        """Who looks into the rewards of an iteration; `is_alarmed` where a patch of the one before was convicted."""
        audit = self.config.audit
        if audit.when == "off":
            return None
        return Inspector(self.auditor, audit, self.progress, seed=self.config.seed, is_alarmed=is_alarmed)


@dataclass(frozen=True)
class Iteration:
    """One iteration of a stage: where its files lie, and what its random choices come from."""

    number: int
    """Counted from 0."""
    stage: StageConfig
    run: RunContext

    @property
    def trajectories(self) -> Path:
        return self.run.folder.trajectories(self.stage.name, self.number)

    @property
    def checkpoint(self) -> Path:
        return self.run.folder.checkpoint(self.stage.name, self.number)

    @property
    def metrics(self) -> Path:
        return self.run.folder.metrics(self.stage.name, self.number)

    @property
    def evidence(self) -> Path:
        return self.run.folder.evidence(self.stage.name, self.number)

    @property
    def seed_stream(self) -> str:
        """The stream that all of its random choices come from."""
        return f"{self.run.config.seed}/{self.stage.name}/{self.number}"

    def seed(self, purpose: str) -> int:
        """The seed of one random choice."""
        return draw_seed(f"{self.seed_stream}/{purpose}")

    def read_previous(self) -> Metrics:
        """What the iteration before told; nothing before the first."""
        file = self.run.folder.metrics(self.stage.name, self.number - 1)
        return read_json(file) if file.exists() else {}

    def read_previous_evidence(self) -> dict[str, float]:
        """Nats for each setting of a sampler, pooled up to the iteration before; nothing before the first."""
        file = self.run.folder.evidence(self.stage.name, self.number - 1)
        return read_json(file) if file.exists() else {}
