"""Configuration of a run.

`run` holds `RunConfig`, which contains the sections of the other files: `model`, `engine`, `cluster`, `tasks`, `agent`,
`sandbox`, `rollouts`, `training`, `evaluation`. Each key has a docstring. Defaults are the paper's, if it states one
(arXiv 2508.03501, App. C and Table 3). `files` reads TOML files and overrides. `names` imports algorithms, tools, engines
and trackers by short name or import path. `extras` lists the optional dependencies. Any package may import this one, which
imports only `types`, `io` and `errors`, and never torch.
"""

from turnsmith.config.agent import AgentConfig
from turnsmith.config.cluster import ClusterConfig
from turnsmith.config.engine import EndpointConfig, EngineConfig, PricesConfig, VllmConfig
from turnsmith.config.evaluation import ROUNDING_GAP, EvalConfig, GapConfig
from turnsmith.config.model import ChatConfig, ModelConfig, RopeScaling
from turnsmith.config.rollouts import AuditConfig, RolloutConfig
from turnsmith.config.run import RunConfig
from turnsmith.config.sandbox import SandboxConfig
from turnsmith.config.section import PathKey, Section
from turnsmith.config.tasks import TRAIN, TaskSetConfig
from turnsmith.config.training import (
    COLD_START,
    RFT,
    ColdStartConfig,
    ImitationConfig,
    Moments,
    OptimizerConfig,
    RFTConfig,
    StageConfig,
    TrainerConfig,
)

__all__ = [
    "COLD_START",
    "RFT",
    "ROUNDING_GAP",
    "TRAIN",
    "AgentConfig",
    "AuditConfig",
    "ChatConfig",
    "ClusterConfig",
    "ColdStartConfig",
    "EndpointConfig",
    "EngineConfig",
    "EvalConfig",
    "GapConfig",
    "ImitationConfig",
    "ModelConfig",
    "Moments",
    "OptimizerConfig",
    "PathKey",
    "PricesConfig",
    "RFTConfig",
    "RolloutConfig",
    "RopeScaling",
    "RunConfig",
    "SandboxConfig",
    "Section",
    "StageConfig",
    "TaskSetConfig",
    "TrainerConfig",
    "VllmConfig",
]
