"""Configuration of a run: all sections, and checks that involve several of them."""

import re
from collections import Counter
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from turnsmith.config.agent import AgentConfig
from turnsmith.config.cluster import ClusterConfig
from turnsmith.config.engine import EngineConfig
from turnsmith.config.evaluation import ROUNDING_GAP, EvalConfig, GapConfig
from turnsmith.config.model import ModelConfig
from turnsmith.config.rollouts import AuditConfig, RolloutConfig
from turnsmith.config.sandbox import SandboxConfig
from turnsmith.config.section import PathKey, Section
from turnsmith.config.tasks import TRAIN, TaskSetConfig
from turnsmith.config.training import (
    COLD_START,
    RFT,
    ColdStartConfig,
    ImitationConfig,
    RFTConfig,
    StageConfig,
    TrainerConfig,
)

NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
"""Pattern of names of stages and task sets, which are also folder names: no path separators, no leading dot."""


class RunConfig(Section):
    """Configuration of a run."""

    seed: int = 0
    """Seed of every random draw: tasks, samples, order."""
    model: ModelConfig = ModelConfig()
    """Base policy."""
    engine: EngineConfig = EngineConfig()
    """Sampler of the policy."""
    trainer: TrainerConfig = TrainerConfig()
    """Trainer of the policy."""
    cluster: ClusterConfig = ClusterConfig()
    """Machines of a trainer with several ranks."""
    train_tasks: TaskSetConfig | None = None
    """Training tasks of RFT and RL; not needed for evaluation."""
    require_qualified: bool = True
    """Require that `turnsmith tasks qualify` has examined the training tasks, and leave out the tasks that it rejected.

    Tasks that the run makes from a package are qualified by the run. Generated practice tasks need no qualification.
    """
    eval_tasks: dict[str, TaskSetConfig] = {}
    """Evaluation task sets by name; every checkpoint is evaluated on them, and no training uses them."""
    agent: AgentConfig = AgentConfig()
    """Scaffold and limits of an episode."""
    sandbox: SandboxConfig = SandboxConfig()
    """Isolation and limits of the sandboxes for agents and tests."""
    rollouts: RolloutConfig = RolloutConfig()
    """Scheduling of episodes and gradings."""
    audit: AuditConfig = AuditConfig()
    """Audit of resolved patches for tampering with the tests."""
    cold_start: ColdStartConfig | None = None
    """Imitation of demonstrations before all other training; none if absent."""
    rft: RFTConfig | None = None
    """Rejection fine-tuning; none if absent."""
    stages: list[StageConfig] = []
    """Stages of RL, in order."""
    eval: EvalConfig = EvalConfig()
    """Evaluation of checkpoints."""
    logprob_gap: GapConfig = GapConfig()
    """Limits of the difference between the engine's and the trainer's log-probs."""
    keep_checkpoints: int = Field(2, ge=0)
    """Number of checkpoints of each stage to keep, the latest ones; 0 keeps all."""
    tracking: Annotated[dict[str, dict[str, Any]], PathKey()] = {}
    """Trackers of metrics: a list of names (`tensorboard`, `wandb`, `mlflow`, import path), or a table from name to options."""

    @field_validator("tracking", mode="before")
    @classmethod
    def _list_trackers(cls, given: Any) -> Any:
        """Turn a list of names into a table of trackers without options."""
        is_list = isinstance(given, list) and all(isinstance(name, str) for name in given)
        return {name: {} for name in given} if is_list else given

    @model_validator(mode="after")
    def _names_are_folders(self) -> "RunConfig":
        stages = Counter(["base", COLD_START, RFT, *(stage.name for stage in self.stages)])
        twice = [name for name, count in stages.items() if count > 1]
        if twice:
            raise ValueError(f"two stages are called {twice[0]!r}: give each stage a name of its own")
        if TRAIN in self.eval_tasks:
            raise ValueError(f"eval_tasks.{TRAIN} has the folder name of the training tasks: give it another name")
        wrong = [name for name in [*stages, *self.eval_tasks] if not re.fullmatch(NAME, name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} cannot name a folder: use letters, digits, dots, dashes, underscores")
        return self

    @model_validator(mode="after")
    def _evaluation_is_held_out(self) -> "RunConfig":
        train = self.train_tasks
        if not train:
            if self.collects:
                raise ValueError("train_tasks is missing: RFT and RL need tasks to learn from")
            return self
        if train.split == "heldout":
            raise ValueError("train_tasks.split is heldout, whose tasks are for evaluation: set it to train")
        for name, tasks in self.eval_tasks.items():
            is_same_split = train.practice_tasks and tasks.practice_tasks and tasks.split == train.split
            if is_same_split and self.seed_of(tasks) == self.seed_of(train):
                raise ValueError(f"eval_tasks.{name} has the tasks of train_tasks: set split = heldout or another seed")
        return self

    @model_validator(mode="after")
    def _nothing_is_missing(self) -> "RunConfig":
        if self.eval.every and not self.eval_tasks and any(stage.plateau for stage in self.stages):
            raise ValueError("stages.plateau counts evaluations (eval.every): give eval_tasks, or set eval.every = 0")
        if self.stages and self.stages[0].curriculum and not self.stages[0].curriculum_from:
            raise ValueError(
                "stages.0.curriculum needs the solve rates of an earlier stage: set curriculum_from to a stage of another "
                "run, or set curriculum = false"
            )
        return self

    @property
    def task_sets(self) -> dict[str, TaskSetConfig]:
        """Task sets by folder name, the training set first."""
        return ({TRAIN: self.train_tasks} if self.train_tasks else {}) | self.eval_tasks

    @property
    def training(self) -> dict[str, ImitationConfig | StageConfig]:
        """Training stages by name, in order: cold start, RFT, then the RL stages."""
        imitation: dict[str, ImitationConfig | None] = {COLD_START: self.cold_start, RFT: self.rft}
        given = {name: part for name, part in imitation.items() if part}
        return {**given, **{stage.name: stage for stage in self.stages}}

    @property
    def collects(self) -> bool:
        """Return True if the run collects trajectories to train on, for which it needs training tasks."""
        return bool(self.stages) or (self.rft is not None and not self.rft.conversations)

    @property
    def warn_gap(self) -> float:
        """Mean difference of log-probs above which the run warns."""
        return self.logprob_gap.warn or ROUNDING_GAP[self.model.dtype]

    def seed_of(self, section: TaskSetConfig) -> int:
        """Return the seed of a task set, or the run's seed if the task set has none."""
        return self.seed if section.seed is None else section.seed
