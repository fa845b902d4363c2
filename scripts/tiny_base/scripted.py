"""Engine with scripted answers, for tests and for the teacher of the tiny base.

Log-probs are 0, and the seed has no effect.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from turnsmith.engines.base import GenerateRequest, WeightSource, complete
from turnsmith.errors import EngineError
from turnsmith.types import Completion

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Answers = Callable[[str, int, str], str]
"""Text of a turn from the episode's id, the index of the turn, and the history so far as text."""


class ScriptedEngine:
    """Engine that answers from a list of texts, one per turn, or from a function (`Answers`).

    Texts are tokenised without special tokens and end with `stop_token_id`, by default the tokenizer's end of sequence.
    """

    policy_version: int = 0

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", answers: list[str] | Answers, *, stop_token_id: int | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._answers = answers
        self._stop_token_id = tokenizer.eos_token_id if stop_token_id is None else stop_token_id
        self._num_answered: Counter[str] = Counter()

    async def generate(self, request: GenerateRequest) -> Completion:
        """Return the next text of the episode. Raises EngineError after the last text, ValueError if the request filters."""
        if not request.is_allowed:
            raise ValueError(f"sampling must be unfiltered, not {request.params}")
        token_ids = self._tokenizer.encode(
            self._next_text(request), add_special_tokens=False, split_special_tokens=True
        )
        token_ids = [*token_ids, self._stop_token_id][: request.max_new_tokens]
        finish_reason = "stop" if token_ids[-1] in request.stop_token_ids else "length"
        return complete(request, token_ids, np.zeros(len(token_ids)), finish_reason, self.policy_version)

    def release(self, episode_id: str) -> None:
        """Forget the turn of the episode."""
        del self._num_answered[episode_id]

    async def load_weights(self, source: WeightSource) -> None:
        """Store the version of the weights."""
        self.policy_version = source.policy_version

    def close(self) -> None: ...

    def _next_text(self, request: GenerateRequest) -> str:
        turn = self._num_answered[request.episode_id]
        self._num_answered[request.episode_id] += 1
        if callable(self._answers):
            return self._answers(request.episode_id, turn, str(self._tokenizer.decode(request.token_ids.tolist())))
        if turn >= len(self._answers):
            raise EngineError(f"the script of {len(self._answers)} turns has no turn {turn + 1}")
        return self._answers[turn]
