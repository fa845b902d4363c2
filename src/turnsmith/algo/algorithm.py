"""Interface of RL algorithms: an advantage function, a loss function and their options."""

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnsmith.algo.names import ALGORITHMS
from turnsmith.config import Section, StageConfig
from turnsmith.config.names import read_options
from turnsmith.errors import UsageError
from turnsmith.types import Group, Sample

# Only the type checker imports torch here: configurations are checked without its slow import.
if TYPE_CHECKING:
    from torch import Tensor

    from turnsmith.algo.tokens import Denominator, LossTokens
else:
    Tensor = Denominator = LossTokens = Any

Metrics = dict[str, float]
"""Name → value of each metric of a loss: a maximum over tokens if the name ends in `_max`, else a mean."""

LossFn = Callable[[Tensor, LossTokens], tuple[Tensor, Metrics]]
"""Function from log-probs (fp32, `[num_tokens]`) and the micro-batch's tokens in the loss to a scalar loss and metrics."""

ALGORITHM_KEYS = ("clip_eps_low", "clip_eps_high", "denominator")
"""Keys of `[[stages]]` that only algorithms read. A stage that sets one which its algorithm does not read is refused."""


@dataclass(frozen=True)
class Algorithm:
    """RL algorithm: advantage function, loss function and their options."""

    advantages: Callable[[Group, Any], dict[str, float]]
    """Function (group, options) → advantage by trajectory id. A trajectory without an advantage is not used for training."""
    make_loss: Callable[[list[Sample], Any], LossFn]
    """Function from an optimizer batch and options to a loss function. The loss function can be pickled.

    The losses of micro-batches add up to that of the batch.
    """
    options: type[Section]
    """Class of the algorithm's options.

    A field with the name of a key of `[[stages]]` gets that key's value; other fields come from `stages.algorithm_options`.
    """


def find_algorithm(name: str) -> Algorithm:
    """Find an algorithm by name or import path. Raises UsageError if there is none."""
    return ALGORITHMS.load_instance(name, Algorithm)


def choose_algorithm(
    stage: StageConfig,
) -> tuple[Callable[[Group], dict[str, float]], Callable[[list[Sample]], LossFn]]:
    """Return a stage's advantage function and loss function, with the stage's options filled in. Raises UsageError."""
    algorithm = find_algorithm(stage.algorithm)
    options = read_stage_options(algorithm, stage)
    return lambda group: algorithm.advantages(group, options), lambda batch: algorithm.make_loss(batch, options)


def read_stage_options(algorithm: Algorithm, stage: StageConfig) -> Section:
    """Read the options of a stage's algorithm. Raises UsageError for an unknown option or a wrong value."""
    known, key = algorithm.options.model_fields, f"stage {stage.name}: algorithm_options"
    shared = {name: getattr(stage, name) for name in known if name in StageConfig.model_fields}
    _refuse_unread(known, stage)
    if own := next((name for name in stage.algorithm_options if name in StageConfig.model_fields), None):
        raise UsageError(f"{key}.{own} is a key of the stage itself: move it out of algorithm_options")
    return read_options(algorithm.options, stage.algorithm_options, key, stage.algorithm, shared)


def _refuse_unread(known: Container[str], stage: StageConfig) -> None:
    """Raise UsageError if a stage sets a key that its algorithm does not read."""
    for name in ALGORITHM_KEYS:
        default = StageConfig.model_fields[name].default
        if name not in known and getattr(stage, name) != default:
            raise UsageError(f"stage {stage.name}: {stage.algorithm} does not read {name}: remove it")
