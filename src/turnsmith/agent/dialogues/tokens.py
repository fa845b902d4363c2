"""Dialogues in tokens. Sampled tokens are kept unchanged; their text is never tokenised again."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from turnsmith.agent.dialogues.base import turn_seed
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.truncation import check_budget, truncate
from turnsmith.config import AgentConfig
from turnsmith.engines.base import Engine, GenerateRequest
from turnsmith.types import Completion, SamplingParams, Trajectory, Turn


class History:
    """Token ids (int32), sampled flags (bool) and log-probs (float32) of an episode, as parallel arrays of shape [num_tokens]."""

    def __init__(self) -> None:
        self.token_ids = np.empty(0, np.int32)
        self.sampled = np.empty(0, np.bool_)
        self.logprobs = np.empty(0, np.float32)

    def __len__(self) -> int:
        return len(self.token_ids)

    def add_given(self, token_ids: Sequence[int]) -> None:
        """Append tokens that the policy did not sample: prompt, observations, template tokens."""
        self._add(np.array(token_ids, np.int32), np.zeros(len(token_ids), np.float32), sampled=False)

    def add_sampled(self, completion: Completion) -> None:
        """Append the tokens of a sampled turn, unchanged."""
        self._add(completion.token_ids, completion.logprobs, sampled=True)

    def _add(self, token_ids: np.ndarray, logprobs: np.ndarray, *, sampled: bool) -> None:
        self.token_ids = np.concatenate([self.token_ids, token_ids])
        self.sampled = np.concatenate([self.sampled, np.full(len(token_ids), sampled)])
        self.logprobs = np.concatenate([self.logprobs, logprobs])


@dataclass
class TokenDialogue:
    """Dialogue with an engine that samples tokens. A renderer converts texts to tokens."""

    engine: Engine
    renderer: ChatRenderer
    config: AgentConfig
    episode_id: str
    seed: int
    decoding: SamplingParams | None = None
    """Sampling parameters of an evaluation; None for temperature 1 without filters, which training requires."""
    history: History = field(default_factory=History, init=False)
    prompt_tokens: int = field(default=0, init=False)
    num_turns: int = field(default=0, init=False)

    def begin(self, system: str, issue: str) -> None:
        self.history.add_given(self.renderer.prompt_ids(system, issue))
        self.prompt_tokens = len(self.history)

    async def sample(self) -> Turn:
        started, start = time.monotonic(), len(self.history)
        completion = await self.engine.generate(self._request())
        self.history.add_sampled(completion)
        self.num_turns += 1
        return Turn(
            start=start,
            end=len(self.history),
            text=self.renderer.turn_text(completion.token_ids.tolist()),
            finish_reason=completion.finish_reason,
            policy_version=completion.policy_version,
            digest=completion.digest,
            generate_s=time.monotonic() - started,
        )

    def _request(self) -> GenerateRequest:
        """Build the request of the next turn: temperature 1 and no filters unless `decoding` is set."""
        return GenerateRequest(
            episode_id=self.episode_id,
            token_ids=self.history.token_ids,
            max_new_tokens=min(self.config.max_new_tokens, self._room),
            stop_token_ids=self.renderer.stop_token_ids,
            seed=turn_seed(self.seed, self.num_turns),
            params=self.decoding or SamplingParams(),
            trains=self.decoding is None,
        )

    def cut(self, observation: str) -> str:
        return truncate(observation, self.config.max_observation_tokens, self.renderer.tokenizer)

    def observe(self, observation: str) -> bool:
        token_ids = self.renderer.observation_ids(observation, after=int(self.history.token_ids[-1]))
        if len(token_ids) >= self._room:
            return False
        self.history.add_given(token_ids)
        return True

    @property
    def is_full(self) -> bool:
        return self._room == 0

    @property
    def _room(self) -> int:
        """Return the number of tokens that still fit into the context."""
        return self.config.max_context - len(self.history)

    def columns(self) -> dict[str, Any]:
        return {**vars(self.history), "prompt_tokens": self.prompt_tokens}

    def close(self) -> None:
        self.engine.release(self.episode_id)


@dataclass(frozen=True)
class TokenDialogueFactory:
    """Factory of dialogues with an engine that samples tokens."""

    engine: Engine
    renderer: ChatRenderer

    def open(self, begun: Trajectory, config: AgentConfig, decoding: SamplingParams | None = None) -> TokenDialogue:
        return TokenDialogue(self.engine, self.renderer, config, begun.trajectory_id, begun.seed, decoding)

    def count_prompt(self, system: str, issue: str) -> int:
        return len(self.renderer.prompt_ids(system, issue))

    def check_budget(self, max_tokens: int) -> None:
        check_budget(max_tokens, self.renderer.tokenizer)

    def status(self) -> str:
        return ""
