"""Engines with one undetected fault each, for configurations such as `engine.kind = "support.engines.faulty_engines:open_TopK"`.

Each engine has its own model, because the trainer's model changes in place.
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
from turnsmith.mismatch.faults import pass_cache
from turnsmith.recipes.policy.base import PolicySetup
from turnsmith.recipes.policy.local import open_inprocess_engine
from turnsmith.training.directories import find_model
from turnsmith.types import Completion, SamplingParams


class Honest:
    """Correct engine over a copy of the weights; subclasses change one thing."""

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
    """Engine that samples with other filters than requested but reports unfiltered log-probs."""

    secret = SamplingParams()

    async def generate(self, request: GenerateRequest) -> Completion:
        return await super().generate(replace(request, params=self.secret, trains=False))


class TopK(Filtering):
    secret = SamplingParams(top_k=4)


class LowTemperature(Filtering):
    secret = SamplingParams(temperature=0.9)


class ReportedLowTemperature(Honest):
    """Engine that samples at temperature 0.9, by scaling the last norm, and reports these log-probs."""

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
    """Engine that always computes in bfloat16."""

    @staticmethod
    def change(config: RunConfig) -> RunConfig:
        model = config.model.model_copy(update={"dtype": "bfloat16"})
        return config.model_copy(update={"model": model})


class StaleWeights(Honest):
    """Engine that ignores new weights but takes their version."""

    async def load_weights(self, source: WeightSource) -> None:
        self.engine.policy_version = source.policy_version


class StaleCache(Honest):
    """Engine that keeps cached keys and values after an update."""

    async def load_weights(self, source: WeightSource) -> None:
        self.model.load_state_dict(source.model.state_dict())
        self.engine.policy_version = source.policy_version


class Retokenising(Honest):
    """Engine that decodes and tokenises observations again, with a leading space, as some tokenizers add it."""

    def __init__(self, engine: InProcessEngine, model: PreTrainedModel, config: RunConfig) -> None:
        super().__init__(engine, model, config)
        self.tokenizer = load_tokenizer(find_model(config.model.path))
        self.read: dict[str, tuple[int, list[int]]] = {}
        """Episode → number of history tokens read, and the tokens they were read as."""

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
    """Cached state of an episode between its turns."""

    prompt_tokens: int
    cache: DynamicCache = field(default_factory=DynamicCache)


class ShiftedPositions:
    """Separate engine built from transformers, one episode at a time; positions after the first prompt are off by one."""

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
open_LowTemperature = LowTemperature.open
open_ReportedLowTemperature = ReportedLowTemperature.open
open_Bfloat16 = Bfloat16.open
open_StaleWeights = StaleWeights.open
open_StaleCache = StaleCache.open
open_Retokenising = Retokenising.open
open_ShiftedPositions = ShiftedPositions.open
