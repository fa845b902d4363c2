"""Engine that samples in this process, with the trainer's own model, many episodes in one batch.

Each episode keeps its attention keys and values between turns, and episodes share those of common prefixes, so only new
tokens are computed. Turns join and leave the batch at any step. A step is a forward pass: it computes the next token of each
running turn and the prompts of joining turns. Steps run in the event loop's thread, because a second thread was slower: it
competes with sandbox code for the interpreter lock. Only evaluations may filter the sampling distribution.
"""

import asyncio
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from turnsmith.engines.base import (
    GenerateRequest,
    SavedWeights,
    StreamedWeights,
    WeightSource,
    check_request,
    complete,
)
from turnsmith.engines.torch import attention
from turnsmith.engines.torch.blocks import BLOCK_TOKENS, BlockStore, blocks_for
from turnsmith.engines.torch.decoder import make_decoder
from turnsmith.engines.torch.paged_attention import BlockLayout, choose_block_tokens, choose_parts
from turnsmith.engines.torch.precision import computing_in, keeping_casts, without_gradients
from turnsmith.engines.torch.running_turns import Row, share_step
from turnsmith.engines.torch.sampling import draw_uniforms, sample, shape_logits
from turnsmith.engines.torch.sequences import SequenceTable, common_prefix
from turnsmith.engines.torch.spared_cores import OtherLoad, sparing
from turnsmith.engines.torch.transfer import fetch, send
from turnsmith.engines.weights import copy_chunks, load_weights
from turnsmith.errors import EngineError, UsageError
from turnsmith.types import Completion

MAX_STEP_TOKENS = 2_048
"""Maximum number of prompt tokens per forward pass; longer prompts take several passes."""

SWITCHES_PER_STEP = 4
"""Number of event-loop passes between two steps: enough to read a sandbox's answer, wake its task and send the next request."""


class InProcessEngine:
    """Engine that samples from a Hugging Face causal model, which it shares with the trainer."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_context: int,
        num_blocks: int,
        dtype: torch.dtype = torch.float32,
        num_spared_cores: int = 1,
    ) -> None:
        """Allocate `num_blocks` cache blocks for keys and values, enough for one episode of `max_context` tokens or more.

        Blocks have `BLOCK_TOKENS` tokens; where the device reads larger ones, as many as hold the same tokens are allocated.
        If the cache cannot hold all running episodes, some wait, and evicted keys are recomputed. Matrix products use
        `dtype`. `num_spared_cores` of torch's threads stay idle during steps while other processes compute, such as sandboxes.
        Raises UsageError if the model has fewer positions than `max_context`.
        """
        check_context(model.config, max_context)
        if num_blocks < blocks_for(max_context):
            raise ValueError(f"{num_blocks} blocks of {BLOCK_TOKENS} tokens cannot hold an episode of {max_context}")
        model.set_attn_implementation(attention.NAME)
        self.policy_version = 0
        self.prefilled_tokens = 0
        """Number of prompt and observation tokens that the engine computed."""
        self.reused_tokens = 0
        """Number of prompt and observation tokens whose cached keys the engine reused."""
        self._model = model
        self._decoder = make_decoder(model)
        self._max_context = max_context
        self._dtype = dtype
        self._make_parts = choose_parts(model.device, dtype)
        block_tokens = choose_block_tokens(model.device, dtype)
        num_blocks = max(blocks_for(num_blocks * BLOCK_TOKENS, block_tokens), blocks_for(max_context, block_tokens))
        self._sequences = SequenceTable(num_blocks, block_tokens)
        self._store = BlockStore(num_blocks, model.device, block_tokens)
        self._waiting: list[tuple[GenerateRequest, asyncio.Future[Completion]]] = []
        self._rows: list[Row] = []
        self._stepping: asyncio.Task[None] | None = None
        self._num_spared_cores, self._load = num_spared_cores, OtherLoad()
        self._is_closed = False

    async def generate(self, request: GenerateRequest) -> Completion:
        """Sample one turn. Raises EngineError if the model fails, ValueError if the request is invalid or exceeds the context."""
        check_request(request, self._max_context)
        if self._is_closed:
            raise EngineError("the engine is closed")
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.create_task(self._step_until_idle())
        return await answer

    def release(self, episode_id: str) -> None:
        """Mark the cache blocks of a finished episode as the first to evict."""
        self._sequences.release(episode_id)

    async def load_weights(self, source: WeightSource) -> None:
        """Load new weights into the model and drop the cache. Weights of a shared model are not copied.

        Raises EngineError during a turn.
        """
        if self._rows or self._waiting:
            raise EngineError(
                "the weights changed while turns were being sampled: wait for all turns before a training step"
            )
        if isinstance(source, SavedWeights):
            load_weights(source.directory, self._model)
        elif isinstance(source, StreamedWeights):
            copy_chunks(source, self._model)
        elif source.model is not self._model:
            self._model.load_state_dict(source.model.state_dict())
        self._sequences.forget()
        self.policy_version = source.policy_version

    def close(self) -> None:
        """End all running turns with an error and refuse new ones."""
        self._is_closed = True
        self._fail(EngineError("the engine was closed during a turn"))

    async def _step_until_idle(self) -> None:
        """Admit waiting turns, compute one step and answer finished turns, repeatedly until no turn is left."""
        with keeping_casts():
            while self._waiting or self._rows:
                try:
                    self._join()
                    with sparing(self._num_spared_cores * self._load.is_high), without_gradients(self._dtype):
                        self._step()
                    self._leave()
                except Exception as error:
                    self._fail(EngineError(f"the engine failed: {type(error).__name__}: {error}"))
                # Without running turns the weights may change, so nothing is awaited before the casts are cleared.
                for _ in range(SWITCHES_PER_STEP if self._waiting or self._rows else 0):
                    await asyncio.sleep(0)

    def _join(self) -> None:
        """Start waiting turns in order of arrival, until the cache has no room for one.

        A turn also waits while a running turn computes a prefix that it can reuse.
        """
        waiting, self._waiting = self._waiting, []
        has_room = True
        for request, answer in waiting:
            if answer.cancelled():
                continue
            if has_room and not self._is_being_computed(request.token_ids[:-1]):
                if row := self._admit(request, answer):
                    self._rows.append(row)
                    continue
                has_room = False
            self._waiting.append((request, answer))

    def _admit(self, request: GenerateRequest, answer: "asyncio.Future[Completion]") -> Row | None:
        """Start a turn: return its row of the batch, which reuses the longest cached prefix, or None if the cache has no room."""
        history = request.token_ids
        limit = min(request.max_new_tokens, self._max_context - len(history))
        # The last token is always computed, since it gives the logits.
        admission = self._sequences.admit(request.episode_id, history[:-1], len(history) + limit)
        if not admission:
            return None
        sequence, block_to_copy = admission
        if block_to_copy:
            self._store.copy(*block_to_copy)
        self.reused_tokens += sequence.length
        pending, uniforms = history[sequence.length :].tolist(), draw_uniforms(request.seed, limit)
        return Row(request, answer, sequence, sequence.length, pending, uniforms)

    def _is_being_computed(self, history: np.ndarray) -> bool:
        """Return True if the next step computes a longer prefix of a history than the cache holds."""
        begun = (row.request.token_ids for row in self._rows if not row.token_ids)
        fresh = max((common_prefix(other, history) for other in begun), default=0)
        return bool(fresh) and fresh > self._sequences.longest_prefix(history)

    def _step(self) -> None:
        """Run one forward pass over the rows' pending tokens; sample the next token of each row whose prompt is complete."""
        parts = share_step(self._rows, MAX_STEP_TOKENS)
        hidden = self._forward(parts)
        for row, count in parts:
            self._keep(row, count)
        complete = [index for index, (row, _) in enumerate(parts) if not row.pending]
        if complete:
            indices = send([np.array(complete)], hidden.device)[0]
            self._sample([parts[index][0] for index in complete], hidden[indices])

    def _forward(self, parts: list[tuple[Row, int]]) -> Tensor:
        """Compute the first `count` pending tokens of each (row, count) in `parts`; return the last hidden state of each row."""
        device = self._model.device
        spans = [row.span(count, self._store.block_tokens) for row, count in parts]
        layout = BlockLayout(self._store, spans, self._make_parts)
        (token_ids,) = send([np.array([token for row, count in parts for token in row.pending[:count]])], device)
        with computing_in(self._dtype, device):
            return self._decoder(token_ids, layout)

    def _keep(self, row: Row, count: int) -> None:
        """Record that the keys of a row's first `count` pending tokens are cached."""
        self.prefilled_tokens += 0 if row.token_ids else count
        row.keep(row.pending[:count])
        row.pending = row.pending[count:]

    def _sample(self, rows: Sequence[Row], hidden: Tensor) -> None:
        """Sample the next token of each row from its hidden state; the token becomes pending. The host waits once."""
        logits = self._model.get_output_embeddings()(hidden.float())
        (uniforms,) = send([np.array([row.next_uniform for row in rows])], logits.device)
        token_ids, logprobs = fetch(sample(logits, uniforms, self._shape_if_asked(logits, rows)))
        if not all(map(math.isfinite, logprobs)):
            raise ArithmeticError("the model's log-probs are not finite")
        for row, token_id, logprob in zip(rows, token_ids, logprobs, strict=True):
            row.take(int(token_id), logprob)

    def _shape_if_asked(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        """Return the logits from which to draw tokens: the policy's, or those shaped by an evaluation's sampling parameters."""
        if all(row.request.params.is_policy for row in rows):
            return logits
        return torch.stack(
            [shape_logits(scores, row.request.params, row.seen) for scores, row in zip(logits, rows, strict=True)]
        )

    def _leave(self) -> None:
        """Answer finished turns, and remove the rows of finished and cancelled turns."""
        for row in self._rows:
            if row.finish_reason and not row.answer.cancelled():
                sampled = row.token_ids, row.logprobs
                row.answer.set_result(complete(row.request, *sampled, row.finish_reason, self.policy_version))
            if row.answer.done():
                self._sequences.rest(row.sequence)
        self._rows = [row for row in self._rows if not row.answer.done()]

    def _fail(self, error: EngineError) -> None:
        """End all turns with an error and drop the cache, which may be inconsistent."""
        answers = [row.answer for row in self._rows] + [answer for _, answer in self._waiting]
        self._sequences.forget()
        self._rows, self._waiting = [], []
        for answer in answers:
            if not answer.done():
                answer.set_exception(error)


def check_context(config: PretrainedConfig, max_context: int) -> None:
    """Raise UsageError if `max_context` exceeds the number of positions that the model supports."""
    positions = num_positions(config)
    if positions is not None and max_context > positions:
        raise UsageError(
            f"max_context {max_context} is above the {positions} positions of the model (max_position_embeddings in its "
            f"config.json): give --agent.max_context {positions} or less, also for cold_start, rft and stages, or a model with a "
            "longer context"
        )


def num_positions(config: PretrainedConfig) -> int | None:
    """Return the number of positions that a model supports, including a context extension (e.g. YaRN); None if unlimited."""
    positions: int | None = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    if positions is None or "factor" not in rope:
        return positions
    # Some configurations state the stretched length, others the original one; take the longer reading.
    return max(positions, int(rope["factor"] * rope.get("original_max_position_embeddings", positions)))
