"""Sections `[eval]` and `[logprob_gap]`: evaluation, and comparison of sampler and policy."""

from pydantic import Field, model_validator

from turnsmith.config.section import Section
from turnsmith.types import SamplingParams

ROUNDING_GAP = {"float32": 1e-4, "bfloat16": 2e-2}
"""`model.dtype` → mean log-prob difference of engine and trainer that rounding can cause: default of `logprob_gap.warn`."""


class EvalConfig(Section):
    """Evaluation of checkpoints."""

    num_runs: int = Field(10, ge=1)
    """Number of rollouts of each task in an evaluation (paper: 10)."""
    k: int = Field(10, ge=1)
    """k of the unbiased pass@k; at most `num_runs`."""
    every: int = Field(0, ge=0)
    """Iterations between evaluations within a stage; 0 evaluates only at its end."""
    sampling: SamplingParams = SamplingParams()
    """Sampling settings of evaluations. The default is that of training: temperature 1 without filters."""

    @model_validator(mode="after")
    def _k_within_runs(self) -> "EvalConfig":
        if self.k > self.num_runs:
            raise ValueError(f"k {self.k} must be at most num_runs {self.num_runs}")
        return self


class GapConfig(Section):
    """Limits of the mean absolute difference between the engine's and the trainer's log-probs."""

    warn: float | None = Field(None, gt=0)
    """Mean difference above which the run warns; if absent, the size of rounding errors: 1e-4 in float32, 2e-2 in bfloat16."""
    stop: float = Field(1.0, gt=0)
    """Mean difference above which the run stops."""
