"""What an algorithm is: two pure functions, and the options that both read. Each has a file of its own in this room."""

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnsmith.config import Section, StageConfig
from turnsmith.errors import UsageError, first_fault
from turnsmith.plugins import load_instance
from turnsmith.types import Group, Sample

# Known to the type checker alone: torch takes seconds, and a configuration is checked before it is imported.
if TYPE_CHECKING:
    from torch import Tensor

    from turnsmith.algo.tokens import Denominator, LossTokens
else:
    Tensor = Denominator = LossTokens = Any

Metrics = dict[str, float]
"""Means over loss tokens, except those whose name ends in `_max`."""

LossFn = Callable[[Tensor, LossTokens], tuple[Tensor, Metrics]]
"""Log-probs now (fp32, `[num_tokens]`) and what the samples say of the same tokens, in; loss (a scalar) and metrics out."""

ALGORITHM_KEYS = ("clip_eps_low", "clip_eps_high", "advantage_std", "denominator")
"""Keys of a stage that only its algorithm may read."""


@dataclass(frozen=True)
class Algorithm:
    """How rewards become advantages, and how advantages become a loss."""

    advantages: Callable[[Group, Any], dict[str, float]]
    """Advantage of each member of a group that trains, by trajectory id; empty where the group says nothing."""
    make_loss: Callable[[list[Sample], Any], LossFn]
    """The loss of one optimizer batch. Its micro-batches add up to it, and it can be pickled: a trainer may be elsewhere."""
    options: type[Section]
    """What both read. A field that `[[stages]]` has too is filled from there, the others from `stages.algorithm_options`."""


def find_algorithm(name: str) -> Algorithm:
    """The algorithm of a name or an import path. Raises UsageError where there is none."""
    return load_instance("algorithm", name, Algorithm)


def choose_algorithm(
    stage: StageConfig,
) -> tuple[Callable[[Group], dict[str, float]], Callable[[list[Sample]], LossFn]]:
    """Advantages and loss as a stage chooses them, options filled in. Raises UsageError."""
    algorithm = find_algorithm(stage.algorithm)
    options = read_options(algorithm, stage)
    return lambda group: algorithm.advantages(group, options), lambda batch: algorithm.make_loss(batch, options)


def read_options(algorithm: Algorithm, stage: StageConfig) -> Section:
    """The options that a stage gives an algorithm. Raises UsageError for one that it does not know, or a wrong value."""
    known, place = algorithm.options.model_fields, f"stage {stage.name}: algorithm_options"
    shared = {name: getattr(stage, name) for name in known if name in StageConfig.model_fields}
    _refuse_unread(known, stage)
    for name in stage.algorithm_options:
        if name in StageConfig.model_fields:
            raise UsageError(f"{place}.{name} is a key of the stage itself: write it beside algorithm_options")
        if name not in known:
            others = ", ".join(name for name in known if name not in shared) or "none"
            raise UsageError(f"{place}.{name} is unknown to {stage.algorithm}: its options are {others}")
    try:
        return algorithm.options(**shared, **stage.algorithm_options)
    except ValidationError as error:
        name = ".".join(map(str, error.errors()[0]["loc"]))
        raise UsageError(f"{place}.{name}: {first_fault(error)}") from None


def _refuse_unread(known: Container[str], stage: StageConfig) -> None:
    """A key that the algorithm does not read must not look as if it did something. Raises UsageError."""
    for name in ALGORITHM_KEYS:
        default = StageConfig.model_fields[name].default
        if name not in known and getattr(stage, name) != default:
            raise UsageError(f"stage {stage.name}: {stage.algorithm} does not read {name}: leave it at {default}")
