"""Texts about the standing of a run: solve rate with its trend, speed of sampling, and time left."""

from collections.abc import Iterator
from datetime import timedelta

from turnsmith.tracking import Standing


def describe_rate(standing: Standing) -> str:
    """Describe the solve rate and its difference from the iteration before: `resolved 43.8% (-18.7 points)`."""
    gain = "" if standing.gain is None else f" ({100 * standing.gain:+.1f} points)"
    return f"resolved {standing.resolved_rate:.1%}{gain}"


def describe_pace(standing: Standing) -> Iterator[str]:
    """Yield the speed of sampling and the time left for the run, as far as they are known."""
    if standing.tokens_per_s is not None:
        yield f"{standing.tokens_per_s:,.0f} sampled tokens/s"
    if standing.left_s:
        yield f"run: about {to_duration(standing.left_s)} left"


def to_duration(seconds: float) -> str:
    """Format seconds: `75.2` → `0:01:15`."""
    return str(timedelta(seconds=round(seconds)))
