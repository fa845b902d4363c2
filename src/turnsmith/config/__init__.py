"""Configuration of a run: sections with defaults, files and overrides, names of pluggable parts, extras of the installation.

`sections` holds the pydantic models, which this package hands on. `files` reads TOML files and overrides. `names`
resolves short names and import paths. Any part may import these models. The package imports only `types` and `errors`,
and never torch.
"""

from turnsmith.config.sections import (
    ROUNDING_GAP,
    TRAIN,
    AgentConfig,
    AuditConfig,
    ChatConfig,
    EndpointConfig,
    EngineConfig,
    EvalConfig,
    GapConfig,
    ModelConfig,
    OptimizerConfig,
    PricesConfig,
    RFTConfig,
    RFTOptimizerConfig,
    RolloutConfig,
    RunConfig,
    RunsConfig,
    SandboxConfig,
    Section,
    StageConfig,
    TaskSetConfig,
    TrainerConfig,
    VllmConfig,
)

__all__ = [
    "ROUNDING_GAP",
    "TRAIN",
    "AgentConfig",
    "AuditConfig",
    "ChatConfig",
    "EndpointConfig",
    "EngineConfig",
    "EvalConfig",
    "GapConfig",
    "ModelConfig",
    "OptimizerConfig",
    "PricesConfig",
    "RFTConfig",
    "RFTOptimizerConfig",
    "RolloutConfig",
    "RunConfig",
    "RunsConfig",
    "SandboxConfig",
    "Section",
    "StageConfig",
    "TaskSetConfig",
    "TrainerConfig",
    "VllmConfig",
]
