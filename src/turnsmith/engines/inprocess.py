"""An engine inside of this process: it decodes many episodes together and reads the trainer's own weights.

Each episode keeps its keys and values between turns, so only new tokens are computed; a prompt that another episode begins
with is shared, not computed. Requests join and leave at any step. One forward pass holds the next token of every running turn and
the prompts of those that join. Steps run in the event loop's own thread: beside Python code that talks to sandboxes, a second
thread was measured slower, for both want the interpreter's lock. Filters of sampling are for evaluations alone.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from turnsmith.engines import attention
from turnsmith.engines.base import GenerateRequest, SavedWeights, WeightSource, check_request, complete
from turnsmith.engines.blocks import BLOCK_TOKENS, BlockStore, blocks_for
from turnsmith.engines.decoder import make_decoder
from turnsmith.engines.drafts import Suffixes
from turnsmith.engines.layouts import BlockLayout, choose_parts
from turnsmith.engines.precision import computing_in, keeping_casts, without_gradients
from turnsmith.engines.rows import Row, share_step
from turnsmith.engines.sampling import draw_uniforms, sample, shape_logits
from turnsmith.engines.sequences import SequenceTable, common_prefix
from turnsmith.engines.weights import load_weights
from turnsmith.errors import EngineError, UsageError
from turnsmith.types import Completion

MAX_STEP_TOKENS = 2_048
"""Prompt tokens of one forward pass; longer prompts take several."""

SWITCHES_PER_STEP = 4
"""Passes of the event loop between steps: what a sandbox answers is read, wakes its task, and becomes the next request."""


class InProcessEngine:
    """Samples from a Hugging Face causal model that it shares with the trainer."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_context: int,
        num_blocks: int,
        dtype: torch.dtype = torch.float32,
        num_spared_cores: int = 1,
        speculates: bool = False,
    ) -> None:
        """Room for `num_blocks` blocks of keys and values, at least for one episode of `max_context` tokens.

        More episodes than find room take turns and recompute what they lost. The layers compute in `dtype`.
        `num_spared_cores` of torch's threads stay idle while the engine computes, for sandboxes and gradings. Where it
        `speculates`, tokens that followed the same ones before are computed ahead, and taken if they are sampled. Raises
        UsageError where the model has fewer positions than the context.
        """
        check_context(model.config, max_context)
        if num_blocks < blocks_for(max_context):
            raise ValueError(f"{num_blocks} blocks of {BLOCK_TOKENS} tokens cannot hold an episode of {max_context}")
        model.set_attn_implementation(attention.NAME)
        self.policy_version = 0
        self.prefilled_tokens = 0
        """Prompt and observation tokens that were computed."""
        self.reused_tokens = 0
        """Prompt and observation tokens whose keys were kept or copied."""
        self._model = model
        self._decoder = make_decoder(model)
        self._max_context = max_context
        self._dtype = dtype
        self._make_parts = choose_parts(model.device, dtype)
        self._sequences = SequenceTable(num_blocks)
        self._store = BlockStore(num_blocks, model.device)
        self._waiting: list[tuple[GenerateRequest, asyncio.Future[Completion]]] = []
        self._rows: list[Row] = []
        self._stepping: asyncio.Task[None] | None = None
        self._num_spared_cores = num_spared_cores
        self._speculates = speculates
        self._is_closed = False

    async def generate(self, request: GenerateRequest) -> Completion:
        """Sample one turn. Raises EngineError where the model fails, ValueError where the request filters or does not fit."""
        check_request(request, self._max_context)
        if self._is_closed:
            raise EngineError("the engine is closed")
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.create_task(self._step_until_idle())
        return await answer

    def release(self, episode_id: str) -> None:
        """The episode is over: its blocks go first when others need room."""
        self._sequences.release(episode_id)

    async def load_weights(self, source: WeightSource) -> None:
        """Take new weights, in place; of the model that a trainer shares nothing is copied. What was computed before is void."""
        if self._rows or self._waiting:
            raise EngineError(
                "the weights changed while turns were being sampled: wait for them before a training step"
            )
        if isinstance(source, SavedWeights):
            load_weights(source.directory, self._model)
        elif source.model is not self._model:
            self._model.load_state_dict(source.model.state_dict())
        self._sequences.forget()
        self.policy_version = source.policy_version

    def close(self) -> None:
        """Fail the turns that still run, and take no more."""
        self._is_closed = True
        self._fail(EngineError("the engine was closed during a turn"))

    async def _step_until_idle(self) -> None:
        """Let turns join, compute one step, answer those that are over; again while there are any."""
        with sparing(self._num_spared_cores), keeping_casts():
            while self._waiting or self._rows:
                try:
                    self._join()
                    with without_gradients(self._dtype):
                        self._step()
                    self._leave()
                except Exception as error:
                    self._fail(EngineError(f"the engine failed: {type(error).__name__}: {error}"))
                # Once no turn runs the weights may change, so nothing is awaited before the casts are gone.
                for _ in range(SWITCHES_PER_STEP if self._waiting or self._rows else 0):
                    await asyncio.sleep(0)

    def _join(self) -> None:
        """Let waiting turns run, in order of arrival, until one finds no room; a prompt that is being computed is waited for."""
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
        """A row with the longest prefix that is known, or None where there is no room for the turn."""
        history = request.token_ids
        limit = min(request.max_new_tokens, self._max_context - len(history))
        # The last token is computed in any case: it gives the logits.
        admission = self._sequences.admit(request.episode_id, history[:-1], len(history) + limit)
        if not admission:
            return None
        sequence, copied = admission
        if copied:
            self._store.copy(*copied)
        self.reused_tokens += sequence.length
        pending, uniforms = history[sequence.length :].tolist(), draw_uniforms(request.seed, limit)
        suffixes = Suffixes(history.tolist()) if self._speculates and request.params.is_policy else None
        return Row(request, answer, sequence, sequence.length, pending, uniforms, suffixes)

    def _is_being_computed(self, history: np.ndarray) -> bool:
        """Does the next step compute a longer prefix than any that is kept? Then to wait for it is cheaper."""
        begun = (row.request.token_ids for row in self._rows if not row.token_ids)
        fresh = max((common_prefix(other, history) for other in begun), default=0)
        return bool(fresh) and fresh > self._sequences.longest_prefix(history)

    def _step(self) -> None:
        """One forward pass over pending tokens, then sampling for each row whose history is complete."""
        parts = share_step(self._rows, MAX_STEP_TOKENS)
        hidden = self._forward(parts).split([1 + len(row.drafts) for row, _ in parts])
        for row, count in parts:
            self._keep(row, count)
        complete = [(row, states) for (row, _), states in zip(parts, hidden, strict=True) if not row.pending]
        if complete:
            self._sample(*zip(*complete, strict=True))

    def _forward(self, parts: list[tuple[Row, int]]) -> Tensor:
        """Compute the first pending tokens and the drafts of some rows; hidden states of the last one and of each draft."""
        device = self._model.device
        spans = [span for row, count in parts for span in row.spans(count)]
        layout = BlockLayout(self._store, spans, self._make_parts)
        token_ids = [token for row, count in parts for token in row.pending[:count] + row.drafts]
        with computing_in(self._dtype, device):
            return self._decoder(torch.tensor(token_ids, device=device), layout)

    def _keep(self, row: Row, count: int) -> None:
        """Note that the keys of a row's first pending tokens are now kept."""
        self.prefilled_tokens += 0 if row.token_ids else count
        row.keep(row.pending[:count])
        row.pending = row.pending[count:]

    def _sample(self, rows: Sequence[Row], hidden: Sequence[Tensor]) -> None:
        """Sample each row's next token, which is then pending, from the hidden state before it; and those after its drafts."""
        logits = self._model.get_output_embeddings()(torch.cat([*hidden]).float())
        uniforms = torch.tensor(np.concatenate([row.next_uniforms for row in rows]))
        asked = [row for row, states in zip(rows, hidden, strict=True) for _ in states]
        token_ids, logprobs = sample(logits, uniforms.to(logits.device), self._decode_as_asked(logits, asked))
        if not logprobs.isfinite().all():
            raise ArithmeticError("the model's log-probs are not finite")
        sizes = [len(states) for states in hidden]
        for row, *sampled in zip(rows, token_ids.split(sizes), logprobs.split(sizes), strict=True):
            row.take(*(each.tolist() for each in sampled))

    def _decode_as_asked(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        """What tokens are drawn from: the policy's logits, but for rows of an evaluation with a decoding of its own."""
        if all(row.request.params.is_policy for row in rows):
            return logits
        return torch.stack(
            [shape_logits(scores, row.request.params, row.seen) for scores, row in zip(logits, rows, strict=True)]
        )

    def _leave(self) -> None:
        """Answer the turns that are over and let their sequences rest; turns that no one waits for any more end too."""
        for row in self._rows:
            if row.finish_reason and not row.answer.cancelled():
                sampled = row.token_ids, row.logprobs
                row.answer.set_result(complete(row.request, *sampled, row.finish_reason, self.policy_version))
            if row.answer.done():
                self._sequences.rest(row.sequence)
        self._rows = [row for row in self._rows if not row.answer.done()]

    def _fail(self, error: EngineError) -> None:
        """Tell everyone who waits; what is kept is no longer sure."""
        answers = [row.answer for row in self._rows] + [answer for _, answer in self._waiting]
        self._sequences.forget()
        self._rows, self._waiting = [], []
        for answer in answers:
            if not answer.done():
                answer.set_exception(error)


@contextmanager
def sparing(num_cores: int) -> Iterator[None]:
    """Compute with fewer threads: where other processes take the cores, torch's threads wait for each other instead."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(max(1, num_threads - num_cores))
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def check_context(config: PretrainedConfig, max_context: int) -> None:
    """Raise UsageError for a context beyond the positions that the model was made for."""
    positions = num_positions(config)
    if positions is not None and max_context > positions:
        raise UsageError(
            f"max_context {max_context} is above the {positions} positions of the model (max_position_embeddings in its "
            "config.json): lower max_context, or use a model with a longer context"
        )


def num_positions(config: PretrainedConfig) -> int | None:
    """Positions that a model was made for, stretched ones (YaRN and its kin) included; None where it sets no limit."""
    positions: int | None = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    if positions is None or "factor" not in rope:
        return positions
    # Some configurations state the stretched length, others the one before: the longer of the two readings counts.
    return max(positions, int(rope["factor"] * rope.get("original_max_position_embeddings", positions)))
