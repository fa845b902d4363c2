"""Independent pair of engine and trainer, each in a separate process behind a pipe.

The pair shares no code with the built-in one. The engine calls transformers turn by turn, one episode at a time, with the cache
of transformers. The trainer computes every logit of one sample at a time. Weights travel as model directories. A configuration
selects the pair by `engine.kind = "support.engines.remote_pair:open_engine"` and
`trainer.kind = "support.engines.remote_pair:open_trainer"`.
"""

import asyncio
import math
import multiprocessing
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import OptimizerConfig
from turnsmith.engines.base import (
    GenerateRequest,
    SavedWeights,
    SharedWeights,
    StreamedWeights,
    WeightSource,
    complete,
)
from turnsmith.errors import EngineError, TrainingError
from turnsmith.mismatch.faults import pass_cache
from turnsmith.recipes.policy.base import PolicySetup, Start
from turnsmith.training.base import Surprisal
from turnsmith.training.directories import find_model
from turnsmith.training.provenance import check_provenance
from turnsmith.training.sampler_settings import ALTERNATIVES, weigh
from turnsmith.types import Completion, MicroBatch, Sample


async def open_engine(setup: PolicySetup) -> "RemoteEngine":
    return RemoteEngine(find_model(setup.config.model.path))


async def open_trainer(setup: PolicySetup, start: Start) -> "RemoteTrainer":
    return RemoteTrainer(start)


PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["transformers", "turnsmith.training.base"])
"""The processes share one import of torch."""


class Peer:
    """Process that answers calls of an object's methods, one at a time."""

    def __init__(self, make: Callable[..., object], *arguments: object) -> None:
        self._pipe, theirs = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=serve, args=(theirs, make, *arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._turn = asyncio.Lock()

    async def call(self, name: str, *arguments: object) -> Any:
        async with self._turn:
            answer = await asyncio.to_thread(self._exchange, name, arguments)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _exchange(self, name: str, arguments: tuple[object, ...]) -> object:
        try:
            self._pipe.send((name, arguments))
            return self._pipe.recv()
        except (OSError, EOFError):
            return EngineError("the process is gone")

    def end(self) -> None:
        self._process.terminate()
        self._process.join()


def serve(pipe: Any, make: Callable[..., object], *arguments: object) -> None:
    torch.set_num_threads(1)
    served = make(*arguments)
    while True:
        try:
            name, given = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(getattr(served, name)(*given))
        except Exception as error:
            pipe.send(error)


def load(directory: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()


class RemoteEngine:
    def __init__(self, directory: Path) -> None:
        self.policy_version = 0
        self._peer = Peer(Sampler, directory)
        self._is_closed = False

    async def generate(self, request: GenerateRequest) -> Completion:
        if not request.params.is_policy:
            raise ValueError("only the policy's own distribution can be sampled")
        if self._is_closed:
            raise EngineError("the engine is closed")
        token_ids, logprobs, reason = await self._peer.call("sample", request)
        return complete(request, token_ids, logprobs, reason, self.policy_version)

    def release(self, episode_id: str) -> None:
        """Keep the cache; the next weights clear it."""

    async def load_weights(self, source: WeightSource) -> None:
        if isinstance(source, StreamedWeights):
            for chunk in source.read():
                await self._peer.call("copy", [(name, tensor.numpy()) for name, tensor in chunk])
            self.policy_version = source.policy_version
            return
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(source, SharedWeights):
                source.model.save_pretrained(folder)
            directory = source.directory if isinstance(source, SavedWeights) else Path(folder)
            await self._peer.call("load", directory)
        self.policy_version = source.policy_version

    def close(self) -> None:
        self._is_closed = True
        self._peer.end()


class Sampler:
    """Object in the engine's process."""

    def __init__(self, directory: Path) -> None:
        self.load(directory)

    def load(self, directory: Path) -> None:
        self._model = load(directory)
        self._kept: dict[str, tuple[list[int], DynamicCache]] = {}

    @torch.no_grad()
    def copy(self, chunk: list[tuple[str, np.ndarray]]) -> None:
        own = dict(self._model.named_parameters())
        for name, array in chunk:
            own[name].copy_(torch.from_numpy(array))
        self._kept = {}

    @torch.inference_mode()
    def sample(self, request: GenerateRequest) -> tuple[list[int], list[float], str]:
        history = request.token_ids.tolist()
        cache, known = self._recall(request.episode_id, history)
        noise = torch.Generator().manual_seed(request.seed)
        token_ids: list[int] = []
        logprobs: list[float] = []
        pending = history[known:]
        while True:
            logits = self._model(torch.tensor([pending]), **pass_cache(self._model, cache)).logits[0, -1]
            scores = logits.float().log_softmax(-1)
            token_id = int(torch.multinomial(scores.exp(), 1, generator=noise))
            token_ids.append(token_id)
            logprobs.append(float(scores[token_id]))
            pending = [token_id]
            if token_id in request.stop_token_ids or len(token_ids) == request.max_new_tokens:
                break
        self._kept[request.episode_id] = history + token_ids[:-1], cache
        return token_ids, logprobs, "stop" if token_ids[-1] in request.stop_token_ids else "length"

    def _recall(self, episode_id: str, history: list[int]) -> tuple[DynamicCache, int]:
        """Return cached keys and values of the longest known prefix, leaving at least one token to compute."""
        tokens, cache = self._kept.pop(episode_id, ([], DynamicCache()))
        if tokens and tokens == history[: len(tokens)] and len(tokens) < len(history):
            return cache, len(tokens)
        return DynamicCache(), 0


class RemoteTrainer:
    def __init__(self, start: Start) -> None:
        self._folder = tempfile.TemporaryDirectory()
        directory = Path(self._folder.name) / "start"
        if isinstance(start.weights, SharedWeights):
            start.weights.model.save_pretrained(directory)
        else:
            directory = start.weights.directory
        self._peer = Peer(Learner, directory, start.optimizer, start.total_steps, start.weights.policy_version)
        self._num_published = 0

    async def step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        return await self._peer.call("step", micro_batches, loss_fn)

    async def logprobs(self, micro_batches: list[MicroBatch]) -> dict[str, np.ndarray]:
        return await self._peer.call("logprobs", micro_batches)

    async def surprisal(self, micro_batches: list[MicroBatch]) -> Surprisal:
        return await self._peer.call("surprisal", micro_batches)

    async def publish(self) -> SavedWeights:
        self._num_published += 1
        directory = Path(self._folder.name) / str(self._num_published)
        return SavedWeights(await self._peer.call("write", directory), directory)

    async def save(self, directory: Path) -> None:
        await self._peer.call("save", directory)

    async def load(self, directory: Path) -> None:
        await self._peer.call("load", directory)

    def close(self) -> None:
        self._peer.end()
        self._folder.cleanup()


class Learner:
    """Object in the trainer's process."""

    def __init__(self, directory: Path, config: OptimizerConfig, total_steps: int, policy_version: int) -> None:
        self._config, self._total_steps, self._version, self._num_steps = config, total_steps, policy_version, 0
        self._model = load(directory)
        matrices, vectors = ([p for p in self._model.parameters() if (p.dim() > 1) is big] for big in (True, False))
        self._optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
            betas=(config.beta1, config.beta2),
        )  # fmt: skip

    def step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        check_provenance(micro_batches)
        self._optimizer.zero_grad()
        metrics, total, counts = [], 0.0, []
        for batch in micro_batches:
            if not batch.num_loss_tokens:
                continue
            loss, told = loss_fn(torch.cat([self._score(sample) for sample in batch.samples]), LossTokens.of(batch))
            if not math.isfinite(loss.item()):
                raise TrainingError(f"the loss is {loss.item()}")
            loss.backward()
            total, metrics, counts = total + loss.item(), [*metrics, told], [*counts, batch.num_loss_tokens]
        norm = nn.utils.clip_grad_norm_(self._model.parameters(), self._config.grad_clip).item()
        if not math.isfinite(norm):
            raise TrainingError(f"the gradient norm is {norm}")
        rate = self._rate()
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._num_steps, self._version = self._num_steps + 1, self._version + 1
        means = {name: np.average([told[name] for told in metrics], weights=counts) for name in metrics[0]}
        largest = {name: max(told[name] for told in metrics) for name in means if name.endswith("_max")}
        facts = {"loss/total": total, "optimizer/grad_norm": norm, "optimizer/learning_rate": rate}
        return {name: float(value) for name, value in (means | largest | facts).items()}

    @torch.no_grad()
    def surprisal(self, micro_batches: list[MicroBatch]) -> Surprisal:
        rows = [row for batch in micro_batches for sample in batch.samples for row in self._distributions(sample)]
        entropies = [row.entropy().item() for _, row in rows]
        nats = weigh(torch.stack([row.logits for _, row in rows]), torch.stack([token for token, _ in rows])).tolist()
        return Surprisal(
            len(rows),
            -sum(row.log_prob(token).item() for token, row in rows),
            sum(entropies),
            sum((row.probs @ (row.logits + h).square()).item() for (_, row), h in zip(rows, entropies, strict=True)),
            dict(zip(ALTERNATIVES, nats, strict=True)),
        )

    def _distributions(self, sample: Sample) -> list[tuple[torch.Tensor, torch.distributions.Categorical]]:
        token_ids = torch.from_numpy(sample.token_ids).long()
        logits = self._model(token_ids[None]).logits[0].double()
        at = np.flatnonzero(sample.loss_mask)
        return [(token_ids[t], torch.distributions.Categorical(logits=logits[t - 1])) for t in at]

    def _rate(self) -> float:
        config, step = self._config, self._num_steps
        if step < config.warmup_steps:
            return config.learning_rate * (step + 1) / config.warmup_steps
        if not self._total_steps:
            return config.learning_rate
        share = (step - config.warmup_steps) / max(1, self._total_steps - config.warmup_steps)
        return config.learning_rate * (1 + math.cos(math.pi * min(1.0, share))) / 2

    def _score(self, sample: Sample) -> Tensor:
        token_ids = torch.tensor(sample.token_ids.tolist())
        scores = self._model(token_ids[None]).logits[0].float().log_softmax(-1)
        at = torch.tensor(np.flatnonzero(sample.loss_mask))
        return scores[at - 1, token_ids[at]]

    @torch.no_grad()
    def logprobs(self, micro_batches: list[MicroBatch]) -> dict[str, np.ndarray]:
        return {s.trajectory_id: self._row(s) for batch in micro_batches for s in batch.samples}

    def _row(self, sample: Sample) -> np.ndarray:
        row = np.zeros(len(sample), np.float32)
        if sample.num_loss_tokens:
            row[sample.loss_mask] = self._score(sample).numpy()
        return row

    def write(self, directory: Path) -> int:
        self._model.save_pretrained(directory)
        return self._version

    def save(self, directory: Path) -> None:
        self.write(directory)
        state = {"optimizer": self._optimizer.state_dict(), "steps": self._num_steps, "version": self._version}
        torch.save(state, directory / "learner.pt")

    def load(self, directory: Path) -> None:
        state = torch.load(directory / "learner.pt", weights_only=True)
        self._model.load_state_dict(load(directory).state_dict())
        self._optimizer.load_state_dict(state["optimizer"])
        self._num_steps, self._version = state["steps"], state["version"]
