"""Turns being sampled, and what of them one step computes."""

import asyncio
from dataclasses import dataclass, field

import numpy as np

from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.blocks import Span
from turnsmith.engines.drafts import Suffixes
from turnsmith.engines.sequences import CachedSequence
from turnsmith.types import Completion

MAX_DRAFT = 4
"""Tokens that are guessed at once."""


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
    suffixes: Suffixes | None = None
    """Guesses what follows, where that is wanted."""
    drafts: list[int] = field(default_factory=list)
    """Guessed tokens, computed along with the pending one."""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def seen(self) -> list[int]:
        """The whole history, what was sampled in this turn included."""
        return [*self.request.token_ids.tolist(), *self.token_ids]

    @property
    def next_uniforms(self) -> np.ndarray:
        """Of the next token, and of those after each draft."""
        begin = len(self.token_ids)
        return self.uniforms[begin : begin + 1 + len(self.drafts)]

    def spans(self, count: int) -> list[Span]:
        """So many pending tokens together, and each draft for itself: what follows it is wanted, too."""
        drafts = [Span(self.sequence.blocks, self.start + count + at, 1) for at in range(len(self.drafts))]
        return [Span(self.sequence.blocks, self.start, count), *drafts]

    def keep(self, token_ids: list[int]) -> None:
        """Note that the keys of the next tokens are kept."""
        self.sequence.hold(self.start, token_ids)
        self.start += len(token_ids)

    def take(self, token_ids: list[int], logprobs: list[float]) -> None:
        """Take what was sampled after the last token and after each draft, for as long as the draft before was right."""
        begin = len(self.token_ids)
        for token_id, logprob, draft in zip(token_ids, logprobs, [*self.drafts, None], strict=True):
            self.token_ids.append(token_id)
            self.logprobs.append(logprob)
            if token_id != draft or self.finish_reason:
                break
            self.keep([token_id])
        self.pending, self.drafts = self.token_ids[-1:], self._guess(self.token_ids[begin:])

    def _guess(self, sampled: list[int]) -> list[int]:
        if self.suffixes is None:
            return []
        self.suffixes.extend(sampled)
        return self.suffixes.draft(min(MAX_DRAFT, len(self.uniforms) - len(self.token_ids) - 1))

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
