"""Turns that the in-process engine is sampling, and their tokens in the next step."""

import asyncio
from dataclasses import dataclass, field

import numpy as np

from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.torch.blocks import Span
from turnsmith.engines.torch.sequences import CachedSequence
from turnsmith.types import Completion


@dataclass(eq=False)
class Row:
    """Turn that the engine is sampling: one row of the batch."""

    request: GenerateRequest
    answer: "asyncio.Future[Completion]"
    sequence: CachedSequence
    start: int
    """Number of tokens of the turn's history whose keys are cached."""
    pending: list[int]
    """Tokens after the cached ones, whose keys must be computed next."""
    uniforms: np.ndarray
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def seen(self) -> list[int]:
        """All tokens of the episode, including those sampled in this turn."""
        return [*self.request.token_ids.tolist(), *self.token_ids]

    @property
    def next_uniform(self) -> float:
        """Uniform random number in [0, 1) that selects the next token by inverse CDF."""
        return float(self.uniforms[len(self.token_ids)])

    def span(self, count: int, block_tokens: int) -> Span:
        """Return the span of the first `count` pending tokens, in cache blocks of `block_tokens` tokens."""
        return Span(self.sequence.blocks, self.start, count, block_tokens)

    def keep(self, token_ids: list[int]) -> None:
        """Record that the keys of the next tokens of the history are cached."""
        self.sequence.hold(self.start, token_ids)
        self.start += len(token_ids)

    def take(self, token_id: int, logprob: float) -> None:
        """Append a sampled token to the turn; the next step computes its keys, values and hidden state."""
        self.token_ids.append(token_id)
        self.logprobs.append(logprob)
        self.pending = [token_id]

    @property
    def finish_reason(self) -> str | None:
        """Reason why the turn ended, `stop` or `length`; None while the turn is running."""
        if self.token_ids and self.token_ids[-1] in self.request.stop_token_ids:
            return "stop"
        return "length" if len(self.token_ids) == len(self.uniforms) else None


def share_step(rows: list[Row], max_prompt_tokens: int) -> list[tuple[Row, int]]:
    """Choose how many pending tokens of each row the next step computes, as (row, count).

    Every row with a single pending token is computed, and of longer rows at most `max_prompt_tokens` tokens in total. Single
    tokens come first, as the attention layout requires.
    """
    parts, room = [], max_prompt_tokens
    for row in rows:
        if len(row.pending) == 1:
            parts.append((row, 1))
        elif room > 0:
            parts.append((row, min(len(row.pending), room)))
            room -= parts[-1][1]
    return sorted(parts, key=lambda part: part[1] > 1)
