"""Workload of `bench/iteration.py`: sizes of the episodes, the tool that answers their turns, and a stopwatch."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

GROUP_SIZE = 8


class Workload(NamedTuple):
    """Episodes of one iteration: the number of prompts, and the turns and tokens of each episode."""

    prompts: int
    turns: int
    sampled: int
    observed: int

    @property
    def episodes(self) -> int:
        return self.prompts * GROUP_SIZE

    @property
    def max_context(self) -> int:
        return self.turns * (self.sampled + self.observed)

    @property
    def num_sampled(self) -> int:
        return self.episodes * self.turns * self.sampled


@dataclass(frozen=True)
class Tool:
    """Tool in this process, whose answers and reward depend only on the prompt and on the sampled tokens."""

    workload: Workload
    vocabulary: int

    def open(self, prompt: int) -> list[int]:
        """Return the token ids of a prompt."""
        return self._draw(f"prompt {prompt}")

    def answer(self, prompt: int, turn: int, sampled: Sequence[int]) -> list[int]:
        """Return the token ids of the observation after a turn."""
        return self._draw(f"{prompt} {turn} {sum(sampled)}")

    def reward(self, sampled: Sequence[int]) -> float:
        """Return the share of even token ids among all sampled tokens of an episode."""
        return sum(token % 2 == 0 for token in sampled) / len(sampled)

    def _draw(self, seed: str) -> list[int]:
        return random.Random(seed).choices(range(self.vocabulary), k=self.workload.observed)


@dataclass
class Stopwatch:
    """Wall-clock seconds of each part of one iteration, and CPU seconds of this process in all parts."""

    seconds: dict[str, float] = field(default_factory=dict)
    cpu: float = 0.0

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        """Add the time of a `with` block to a part."""
        began, cpu_began = time.perf_counter(), time.process_time()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began
        self.cpu += time.process_time() - cpu_began

    @property
    def total(self) -> float:
        return sum(self.seconds.values())
