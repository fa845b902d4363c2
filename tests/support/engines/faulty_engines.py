"""Engines with one fault each, for `engine.kind = "support.engines.faulty_engines:open_TopK"` and the like. None of them says so.

All stand on a model of their own, as an engine elsewhere does: that of the trainer changes in place.
"""

import copy
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from turnsmith.chat.tokenizers import load_tokenizer
from turnsmith.config import RunConfig
from turnsmith.engines.base import GenerateRequest, WeightSource, complete
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.engines.torch.sampling import draw_uniforms, sample
from turnsmith.mismatch.cache import pass_cache
from turnsmith.recipes.policy.base import PolicySetup
from turnsmith.recipes.policy.local import open_inprocess_engine
from turnsmith.training.directories import find_model
from turnsmith.types import Completion, SamplingParams


class Honest:
    """The engine of this house over a copy of the weights; the faulty ones change one thing of it."""

    def __init__(self, engine: InProcessEngine, model: PreTrainedModel, config: RunConfig) -> None:
        self.engine, self.model = engine, model

    @classmethod
    async def open(cls, setup: PolicySetup) -> Self:
        model, config = copy.deepcopy(setup.model()), cls.change(setup.config)
        engine = await open_inprocess_engine(replace(setup, config=config, model=lambda: model))
        return cls(engine, model, config)

    @staticmethod
    def change(config: RunConfig) -> RunConfig:
        return config

    @property
    def policy_version(self) -> int:
        return self.engine.policy_version

    async def generate(self, request: GenerateRequest) -> Completion:
        return await self.engine.generate(request)

    def release(self, episode_id: str) -> None:
        self.engine.release(episode_id)

    async def load_weights(self, source: WeightSource) -> None:
        await self.engine.load_weights(source)

    def close(self) -> None:
        self.engine.close()


class Filtering(Honest):
    """Draws in another way than it is asked to, and reports the log-probs of the policy."""

    secret = SamplingParams()

    async def generate(self, request: GenerateRequest) -> Completion:
        return await super().generate(replace(request, params=self.secret, trains=False))


class TopK(Filtering):
    secret = SamplingParams(top_k=4)


class Cool(Filtering):
    secret = SamplingParams(temperature=0.9)


class CoolAndSaysSo(Honest):
    """Draws at temperature 0.9 and reports what it drew from: logits are linear in the last norm, so that is scaled."""

    def __init__(self, engine: InProcessEngine, model: PreTrainedModel, config: RunConfig) -> None:
        super().__init__(engine, model, config)
        self.cool()

    def cool(self) -> None:
        with torch.no_grad():
            self.model.get_decoder().norm.weight /= 0.9

    async def load_weights(self, source: WeightSource) -> None:
        await super().load_weights(source)
        self.cool()


class Bfloat16(Honest):
    """Computes in bfloat16, whatever the configuration says."""

    @staticmethod
    def change(config: RunConfig) -> RunConfig:
        model = config.model.model_copy(update={"dtype": "bfloat16"})
        return config.model_copy(update={"model": model})


class Deaf(Honest):
    """Takes note of an update, and goes on with the weights that it has."""

    async def load_weights(self, source: WeightSource) -> None:
        self.engine.policy_version = source.policy_version


class Hoarding(Honest):
    """Takes new weights, and keeps the keys and values that the old ones made."""

    async def load_weights(self, source: WeightSource) -> None:
        self.model.load_state_dict(source.model.state_dict())
        self.engine.policy_version = source.policy_version


class Respelling(Honest):
    """Reads observations by way of text, with a space before them, as tokenizers do that begin every text with one."""

    def __init__(self, engine: InProcessEngine, model: PreTrainedModel, config: RunConfig) -> None:
        super().__init__(engine, model, config)
        self.tokenizer = load_tokenizer(find_model(config.model.path))
        self.read: dict[str, tuple[int, list[int]]] = {}
        """Of each episode, how many tokens of its history were read, and what they were read as."""

    async def generate(self, request: GenerateRequest) -> Completion:
        num, told = self.read.get(request.episode_id, (0, []))
        new = request.token_ids[num:].tolist()
        told = told + (self.respell(new) if num else new)
        answer = await self.engine.generate(replace(request, token_ids=np.array(told)))
        sampled = answer.token_ids.tolist()
        self.read[request.episode_id] = len(request.token_ids) + len(sampled), told + sampled
        return complete(request, sampled, answer.logprobs, answer.finish_reason, answer.policy_version)

    def respell(self, token_ids: list[int]) -> list[int]:
        text = self.tokenizer.decode(token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return self.tokenizer.encode(text.replace("user\n", "user\n ", 1), add_special_tokens=False)


@dataclass
class Kept:
    """An episode between its turns."""

    prompt_tokens: int
    cache: DynamicCache = field(default_factory=DynamicCache)


class Misplacing:
    """Another engine, of transformers' own parts, one episode at a time. After the first prompt its positions are off by one."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.policy_version = 0
        self.model = model
        self.model.set_attn_implementation("sdpa")
        self.kept: dict[str, Kept] = {}

    @classmethod
    async def open(cls, setup: PolicySetup) -> Self:
        return cls(copy.deepcopy(setup.model()))

    async def generate(self, request: GenerateRequest) -> Completion:
        kept = self.kept.setdefault(request.episode_id, Kept(len(request.token_ids)))
        pending = request.token_ids[kept.cache.get_seq_length() :].tolist()
        token_ids: list[int] = []
        logprobs: list[float] = []
        for uniform in draw_uniforms(request.seed, request.max_new_tokens):
            logits = self.compute(pending, kept)
            token_id, logprob = sample(logits, torch.tensor([uniform]))
            pending = [int(token_id)]
            token_ids, logprobs = [*token_ids, *pending], [*logprobs, float(logprob)]
            if pending[0] in request.stop_token_ids:
                return complete(request, token_ids, logprobs, "stop", self.policy_version)
        return complete(request, token_ids, logprobs, "length", self.policy_version)

    @torch.inference_mode()
    def compute(self, pending: list[int], kept: Kept) -> torch.Tensor:
        start = kept.cache.get_seq_length()
        positions = torch.arange(start, start + len(pending))
        positions += positions >= kept.prompt_tokens
        output = self.model.get_decoder()(
            input_ids=torch.tensor([pending]),
            position_ids=positions[None],
            attention_mask=torch.ones(1, start + len(pending), dtype=torch.long),
            **pass_cache(self.model.get_decoder(), kept.cache),
        )
        return self.model.get_output_embeddings()(output.last_hidden_state[:, -1])

    def release(self, episode_id: str) -> None:
        self.kept.pop(episode_id, None)

    async def load_weights(self, source: WeightSource) -> None:
        self.model.load_state_dict(source.model.state_dict())
        self.policy_version = source.policy_version

    def close(self) -> None:
        self.kept.clear()


open_Honest = Honest.open
open_TopK = TopK.open
open_Cool = Cool.open
open_CoolAndSaysSo = CoolAndSaysSo.open
open_Bfloat16 = Bfloat16.open
open_Deaf = Deaf.open
open_Hoarding = Hoarding.open
open_Respelling = Respelling.open
open_Misplacing = Misplacing.open
