"""Two objects that the functions of a recipe share: `RunContext` of a run, and `Iteration` of one RL iteration."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.algo.algorithm import Metrics
from turnsmith.audit.auditor import Auditor
from turnsmith.config import AgentConfig, RFTConfig, RunConfig, StageConfig
from turnsmith.recipes.policy.base import Policy
from turnsmith.rollouts.generator import Generator
from turnsmith.rollouts.inspection import AuditScheduler
from turnsmith.rollouts.rollout import draw_seed
from turnsmith.runs.folder import IterationFolder, RunFolder, read_json
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking import Progress
from turnsmith.tracking.feed import Feed

if TYPE_CHECKING:
    from turnsmith.recipes.policy.local import TokenPolicy


@dataclass(frozen=True)
class RunContext:
    """Configuration, folder, policy, tasks and rollout generator of one run."""

    config: RunConfig
    folder: RunFolder
    policy: Policy
    scaffold: Scaffold
    generator: Generator
    auditor: Auditor
    train_tasks: TaskSet
    """Tasks for training; empty if the run trains nothing."""
    eval_tasks: list[TaskSet]
    progress: Progress
    feed: Feed
    """Sender of the metrics of finished iterations and evaluations to the experiment trackers."""

    @property
    def token_policy(self) -> "TokenPolicy":
        """Return the policy of a run that trains, which is always a TokenPolicy."""
        from turnsmith.recipes.policy.local import TokenPolicy

        assert isinstance(self.policy, TokenPolicy)
        return self.policy

    def agent_for(self, limits: RFTConfig | StageConfig) -> AgentConfig:
        """Return the agent's configuration with the turn and context limits of RFT or of a stage."""
        return self.config.agent.model_copy(update={"max_turns": limits.max_turns, "max_context": limits.max_context})

    def open_inspection(self, *, is_alarmed: bool = False) -> AuditScheduler | None:
        """Return the inspector that audits an iteration's rewards, or None if audits are off.

        `is_alarmed` is true if a patch of the previous iteration failed its audit; then all resolved patches are audited.
        """
        audit = self.config.audit
        if audit.when == "off":
            return None
        return AuditScheduler(self.auditor, audit, self.progress, seed=self.config.seed, is_alarmed=is_alarmed)


@dataclass(frozen=True)
class Iteration:
    """One iteration of an RL stage, with its files and random seeds."""

    number: int
    """Number of the iteration in its stage, counted from 0."""
    stage: StageConfig
    run: RunContext

    @property
    def files(self) -> IterationFolder:
        return self.run.folder.iteration(self.stage.name, self.number)

    @property
    def seed_stream(self) -> str:
        """Name from which all random seeds of this iteration are derived."""
        return f"{self.run.config.seed}/{self.stage.name}/{self.number}"

    def seed(self, purpose: str) -> int:
        """Derive a random seed of this iteration. Each purpose, e.g. `batches`, has a seed of its own."""
        return draw_seed(f"{self.seed_stream}/{purpose}")

    def read_previous(self) -> Metrics:
        """Read the metrics of the previous iteration; empty for the first iteration."""
        file = self.run.folder.iteration(self.stage.name, self.number - 1).metrics
        metrics = read_json(file) if file.exists() else {}
        if "audit/convicted" in metrics:  # version 0.1
            warnings.warn(f"{file}: audit/convicted is deprecated: it is now audit/failed", FutureWarning, stacklevel=2)
            metrics["audit/failed"] = metrics.pop("audit/convicted")
        return metrics

    def read_previous_evidence(self) -> dict[str, float]:
        """Read the sampler check's sums over earlier iterations: setting → log(likelihood under it / under the policy), nats."""
        file = self.run.folder.iteration(self.stage.name, self.number - 1).evidence
        return read_json(file) if file.exists() else {}
