"""Sizes of episodes: assumed, or those of a finished run."""

import random
from dataclasses import dataclass

MEDIAN_TURNS_SHARE = 0.5
"""Assumed median of the turns of an episode, as a share of the limit; the logarithm of turns has a deviation of 0.5."""
ASSUMED_PROMPT, ASSUMED_SAMPLED, ASSUMED_OBSERVED = 3_000, 200, 900
"""Assumed tokens: of the first prompt, sampled in a turn, and of an observation (means; both exponential)."""
ASSUMED_ACT_S, ASSUMED_GRADE_S = 1.5, 60.0
"""Assumed seconds on one core: of a command (mean, exponential), and of the tests that grade a patch."""
ASSUMED_SIGNAL = 0.5
"""Assumed share of groups whose results differ; the others are not used for training (paper §3.2)."""


@dataclass(frozen=True)
class TurnSize:
    """Sizes of one turn."""

    sampled: int
    """Number of sampled tokens."""
    observed: int
    """Number of tokens after them: observation and template."""
    act_s: float
    """Seconds of its command on one core."""


@dataclass(frozen=True)
class EpisodeSize:
    """Sizes of one episode."""

    prompt: int
    """Number of tokens of the first prompt."""
    turns: tuple[TurnSize, ...]
    grade_s: float
    """Seconds of grading on one core."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens of the whole episode."""
        return self.prompt + sum(turn.sampled + turn.observed for turn in self.turns)

    @property
    def num_sampled(self) -> int:
        """Number of sampled tokens."""
        return sum(turn.sampled for turn in self.turns)


@dataclass(frozen=True)
class Workload:
    """Episodes from which a plan draws, and the share of groups with signal."""

    episodes: tuple[EpisodeSize, ...]
    signal: float
    source: str
    """`assumed`, or the run from which the sizes come."""

    @property
    def mean_tokens(self) -> float:
        """Mean number of tokens of an episode."""
        return sum(episode.num_tokens for episode in self.episodes) / len(self.episodes)

    def draw(self, num: int, seed: int) -> list[EpisodeSize]:
        """Draw episodes at random, with replacement; all of them in order if `num` is their number."""
        if num == len(self.episodes):
            return [*self.episodes]
        return random.Random(seed).choices(self.episodes, k=num)


def assume_workload(max_turns: int, max_context: int, num: int = 500) -> Workload:
    """Make a workload from the assumptions of this module, within the limits of turns and tokens."""
    rng = random.Random(0)
    episodes = tuple(assume_episode(max_turns, max_context, rng) for _ in range(num))
    return Workload(episodes, ASSUMED_SIGNAL, "assumed")


def assume_episode(max_turns: int, max_context: int, rng: random.Random) -> EpisodeSize:
    """Draw the sizes of one episode, which ends at the limit of turns or tokens at the latest."""
    num_turns = min(max_turns, max(1, round(max_turns * MEDIAN_TURNS_SHARE * rng.lognormvariate(0, 0.5))))
    prompt, turns = min(ASSUMED_PROMPT, max_context // 2), list[TurnSize]()
    num_tokens = prompt
    for _ in range(num_turns):
        turn = assume_turn(rng)
        num_tokens += turn.sampled + turn.observed
        if num_tokens > max_context:
            break
        turns.append(turn)
    return EpisodeSize(prompt, tuple(turns), ASSUMED_GRADE_S)


def assume_turn(rng: random.Random) -> TurnSize:
    """Draw the sizes of one turn."""
    sampled, observed = rng.expovariate(1 / ASSUMED_SAMPLED), rng.expovariate(1 / ASSUMED_OBSERVED)
    return TurnSize(1 + round(sampled), round(observed), rng.expovariate(1 / ASSUMED_ACT_S))
