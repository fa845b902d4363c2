"""TRL's side of `bench/iteration.py`: its GRPO trainer on a CPU, with a `rollout_func` that plays multi-turn episodes.

The function generates each turn by `GRPOTrainer._generate_single_turn`, as TRL's own tool loop does. This method calls
`generate` of transformers on the whole history of all episodes, in one batch. TRL skips the pass for old log-probs, because one
optimizer step follows each collection.
"""

import os
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from iteration_episodes import GROUP_SIZE, Stopwatch, Tool, Workload
from turnsmith.config import StageConfig
from turnsmith.training.directories import find_model
from turnsmith.types import Sample

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

EPISODES_PER_PASS = 4
"""Number of episodes in one forward and backward pass."""


class TrlSide:
    """GRPO trainer of TRL with a copy of the model."""

    def __init__(self, model: str, workload: Workload, tool: Tool, stage: StageConfig, iterations: int) -> None:
        directory = find_model(model)
        self._workload, self._tool = workload, tool
        self._collecting, self._folder = Stopwatch(), TemporaryDirectory()
        self.trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="sdpa"),
            reward_funcs=lambda completions, score, **unused: score,
            args=make_config(self._folder.name, workload, stage, iterations),
            train_dataset=Dataset.from_list([{"prompt": str(number)} for number in range(workload.prompts)]),
            processing_class=AutoTokenizer.from_pretrained(directory),
            rollout_func=self._roll_out,
        )
        # Turns end at their token limit only.
        self.trainer.eos_token_ids = [-1]
        self.trainer.generation_config.eos_token_id = None

    def train(self, note: Callable[[Stopwatch], None], pause: Callable[[int], None]) -> None:
        """Train for all iterations. After each, note the seconds of its parts, and pause with the iteration's number."""
        self.trainer.add_callback(Interleave(self._collecting, note, pause))
        self.trainer.train()

    def score(self, samples: list[Sample]) -> tuple[float, Tensor]:
        """Return loss and gradient of a batch."""
        model, total = cast(nn.Module, self.trainer.model).eval(), 0.0
        num_items = torch.tensor(sum(sample.num_loss_tokens for sample in samples))
        for start in range(0, len(samples), EPISODES_PER_PASS):
            inputs = pad_samples(samples[start : start + EPISODES_PER_PASS], self._workload.observed)
            loss = self.trainer._compute_loss(model, inputs | {"num_items_in_batch": num_items})
            loss.backward()
            total += loss.item()
        gradient = torch.cat([cast(Tensor, each.grad).flatten() for each in model.parameters()])
        model.zero_grad()
        return total, gradient

    def _roll_out(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        """Play one episode per prompt, all in step. The log-probs are None, so that TRL computes none for them."""
        with self._collecting.time("collect"):
            opened = [self._tool.open(int(prompt)) for prompt in prompts]
            completions, masks = [list[int]() for _ in prompts], [list[int]() for _ in prompts]
            for turn in range(self._workload.turns):
                if turn:
                    for prompt, tokens, mask in zip(prompts, completions, masks, strict=True):
                        observed = self._tool.answer(int(prompt), turn, tokens[-self._workload.sampled :])
                        tokens += observed
                        mask += [0] * len(observed)
                histories = [first + tokens for first, tokens in zip(opened, completions, strict=True)]
                sampled, _ = trainer._generate_single_turn(histories, None, {}, GROUP_SIZE)
                for tokens, mask, new in zip(completions, masks, sampled, strict=True):
                    tokens += new
                    mask += [1] * len(new)
        scores = [self._score(*episode) for episode in zip(completions, masks, strict=True)]
        ended = {"completion_ids": completions, "env_mask": masks, "score": scores}
        return {"prompt_ids": opened, "logprobs": None, **ended}

    def _score(self, tokens: list[int], mask: list[int]) -> float:
        return self._tool.reward([token for token, is_sampled in zip(tokens, mask, strict=True) if is_sampled])


class Interleave(TrainerCallback):
    """Callback that times each iteration of the trainer, and pauses the trainer after it."""

    def __init__(self, collecting: Stopwatch, note: Callable[[Stopwatch], None], pause: Callable[[int], None]) -> None:
        self._collecting, self._note, self._pause = collecting, note, pause
        self._began = self._cpu_began = 0.0

    def on_step_begin(self, *unused: Any, **more: Any) -> None:
        self._collecting.seconds.clear()
        self._began, self._cpu_began = time.perf_counter(), time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        took, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu_began
        collect = self._collecting.total
        self._note(Stopwatch({"collect": collect, "update": took - collect}, cpu))
        self._pause(state.global_step)


def make_config(folder: str, workload: Workload, stage: StageConfig, iterations: int) -> GRPOConfig:
    """Return TRL's configuration of the same algorithm, optimizer and batch, with one optimizer step per iteration."""
    optimizer = stage.optimizer
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        loss_type="dapo",
        beta=0.0,
        epsilon=stage.clip_eps_low,
        epsilon_high=stage.clip_eps_high,
        num_generations=GROUP_SIZE,
        per_device_train_batch_size=EPISODES_PER_PASS,
        gradient_accumulation_steps=workload.episodes // EPISODES_PER_PASS,
        max_completion_length=workload.sampled,
        gradient_checkpointing=False,
        learning_rate=optimizer.learning_rate,
        adam_beta1=optimizer.beta1,
        adam_beta2=optimizer.beta2,
        weight_decay=optimizer.weight_decay,
        max_grad_norm=optimizer.grad_clip,
        lr_scheduler_type="constant",
        max_steps=iterations,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def pad_samples(samples: list[Sample], num_prompt: int) -> dict[str, Tensor]:
    """Return the inputs of TRL's loss for samples whose first `num_prompt` tokens are the prompt."""

    def pad(column: str) -> Tensor:
        rows = [torch.from_numpy(getattr(sample, column)[num_prompt:].copy()) for sample in samples]
        return pad_sequence(rows, batch_first=True)

    prompts = torch.tensor(np.stack([sample.token_ids[:num_prompt] for sample in samples]), dtype=torch.long)
    lengths = torch.tensor([len(sample) - num_prompt for sample in samples])
    return {
        "prompt_ids": prompts,
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": pad("token_ids").long(),
        "completion_mask": (torch.arange(int(lengths.max())) < lengths[:, None]).long(),
        "tool_mask": pad("loss_mask").long(),
        "old_per_token_logps": pad("old_logprobs"),
        "advantages": torch.tensor([sample.advantages[0] for sample in samples]),
    }
