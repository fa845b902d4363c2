"""Turns being sampled, and what of them one step computes."""

import asyncio
from dataclasses import dataclass, field

import numpy as np

from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.sequences import CachedSequence
from turnsmith.types import Completion


@dataclass(eq=False)
class Row:
    """A turn being sampled."""

    request: GenerateRequest
    answer: "asyncio.Future[Completion]"
    sequence: CachedSequence
    start: int
    """Number of tokens whose keys are kept."""
    pending: list[int]
    """Tokens after them, whose keys are to be computed."""
    uniforms: np.ndarray
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def seen(self) -> list[int]:
        """The whole history, what was sampled in this turn included."""
        return [*self.request.token_ids.tolist(), *self.token_ids]

    @property
    def finish_reason(self) -> str | None:
        """None while the turn goes on."""
        if self.token_ids and self.token_ids[-1] in self.request.stop_token_ids:
            return "stop"
        return "length" if len(self.token_ids) == len(self.uniforms) else None


def share_step(rows: list[Row], max_prompt_tokens: int) -> list[tuple[Row, int]]:
    """Rows and how many of their pending tokens the next step computes: every single one, prompts as far as the bound reaches.

    Single tokens first, as the layout of the step asks for.
    """
    parts, room = [], max_prompt_tokens
    for row in rows:
        if len(row.pending) == 1:
            parts.append((row, 1))
        elif room > 0:
            parts.append((row, min(len(row.pending), room)))
            room -= parts[-1][1]
    return sorted(parts, key=lambda part: part[1] > 1)
