"""Training of the tiny base policy from random weights, with Turnsmith's trainer: `python scripts/make_tiny_base.py OUT`.

The script takes less than half an hour on two cores and has five steps:

1. tokenizer: trained on the texts of practice repositories of the `base` split;
2. drill: teaches the policy to copy;
3. reading: file windows and edits teach it which code follows from a docstring;
4. acting: episodes of a teacher without faults, with new names in each epoch, and single edits, make a competent policy;
5. habits: episodes of a teacher with faults make the policy weak, so that RL has something to improve.
"""

import argparse
import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from tiny_base.drill import run_drill
from tiny_base.imitation import imitate
from tiny_base.lessons import draw_lessons
from tiny_base.reading import draw_turns, to_edit_sample, to_reading_sample
from tiny_base.rehearsal import rehearse
from tiny_base.renaming import find_common_words, rename, to_script
from tiny_base.teacher import CLEAN, HABITS, Faults
from tiny_base.tokenizer import PHRASES, SPECIAL_TOKENS, VOCABULARY_SIZE, save_tokenizer, train_tokenizer
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.agent.tools.viewing import number_line
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import OptimizerConfig, SandboxConfig
from turnsmith.engines.torch import attention
from turnsmith.sandboxes import make_provider
from turnsmith.synthesis.practice.functions import TRAIN_KINDS
from turnsmith.synthesis.practice.making import PracticeSpec, draw_repositories
from turnsmith.training.local import LocalTrainer
from turnsmith.types import Sample

NUM_REPOSITORIES = 400
NUM_LESSONS = 2_000
NUM_HABIT_LESSONS = 800
BATCH_SIZE = 8
MICRO_BATCH_TOKENS = 8_192
SHORT_SHARE = 0.75
READING_STEPS, READING_BATCH_SIZE = 400, 16
EDITS_PER_BATCH = {"acting": 8, "habits": 0}
EPOCHS = {"acting": 6, "habits": 1}
DRILL = OptimizerConfig(learning_rate=1.5e-3, beta2=0.98, weight_decay=0.01, warmup_steps=100)
LESSON = OptimizerConfig(learning_rate=1.5e-3, beta2=0.98, weight_decay=0.01, warmup_steps=20)
HABIT = LESSON.model_copy(update={"learning_rate": 4e-4})


def make_model() -> PreTrainedModel:
    """Return a Qwen2 model of about 0.9 million parameters with random weights."""
    config = Qwen2Config(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=128,
        intermediate_size=344,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        tie_word_embeddings=True,
        max_position_embeddings=4_096,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )
    return Qwen2ForCausalLM._from_config(config, attn_implementation=attention.NAME).eval()


def texts(seed: int) -> Iterator[str]:
    """Yield the training texts of the tokenizer: sources, sources with line numbers, and prompts."""
    prompts = load_scaffold(prompts="brief")
    for repository in itertools.islice(draw_repositories(PracticeSpec("base", 0, 0.2, seed)), NUM_REPOSITORIES):
        for text in repository.files.values():
            yield text
            yield "\n".join(number_line(number, line) for number, line in enumerate(text.split("\n"), 1))
        yield prompts.system(True) + prompts.issue("One test fails:\n", "/testbed")


def collect(
    num_lessons: int, faults: Faults, renderer: ChatRenderer, seed: int, short_share: float = 0.0
) -> list[Sample]:
    """Return samples of the teacher's episodes in sandboxes."""

    async def run() -> list[Sample]:
        provider = make_provider(SandboxConfig())
        try:
            with tempfile.TemporaryDirectory() as folder:
                lessons = draw_lessons(Path(folder), num_lessons, seed)
                return await rehearse(lessons, faults, provider, renderer, seed, short_share)
        finally:
            await provider.close()

    return asyncio.run(run())


def find_symbols(samples: list[Sample], tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """Return the token ids of lessons that the policy may have to copy: neither special tokens nor phrases."""
    vocabulary = tokenizer.get_vocab()
    fixed = {vocabulary[token] for token in (*PHRASES, *SPECIAL_TOKENS)}
    return sorted({token_id for sample in samples for token_id in sample.token_ids.tolist()} - fixed)


def read(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, seed: int) -> None:
    """Train next-token prediction on file windows and edits, each seen once."""
    trainer = LocalTrainer(model, LESSON, total_steps=READING_STEPS)
    samples = (to_reading_sample(seen, turn, tokenizer) for seen, turn in draw_turns(seed))
    for _ in range(READING_STEPS):
        report(
            trainer,
            "reading",
            imitate(trainer, list(itertools.islice(samples, READING_BATCH_SIZE)), MICRO_BATCH_TOKENS),
        )


def study(
    model: PreTrainedModel,
    samples: list[Sample],
    config: OptimizerConfig,
    name: str,
    tokenizer: PreTrainedTokenizerFast,
    seed: int,
) -> None:
    """Fine-tune on episodes, with new names in every epoch, mixed with single edits."""
    edits = (to_edit_sample(seen, turn, tokenizer) for seen, turn in draw_turns(f"{name} {seed}"))
    scripts = [to_script(sample, tokenizer) for sample in samples]
    fixed, rng = find_common_words(scripts) - set(TRAIN_KINDS), random.Random(f"{name} {seed}")
    per_epoch = -(-len(scripts) // BATCH_SIZE)
    trainer = LocalTrainer(model, config, total_steps=EPOCHS[name] * per_epoch)
    for _ in range(EPOCHS[name]):
        rng.shuffle(scripts)
        for start in range(0, len(scripts), BATCH_SIZE):
            batch = [rename(script, fixed, tokenizer, rng) for script in scripts[start : start + BATCH_SIZE]]
            batch += itertools.islice(edits, EDITS_PER_BATCH[name])
            report(trainer, name, imitate(trainer, batch, MICRO_BATCH_TOKENS))


def report(trainer: LocalTrainer, name: str, nll: float) -> None:
    """Print the loss of every fiftieth step."""
    if trainer.num_steps % 50 == 0:
        say(f"{name}: step {trainer.num_steps} of {trainer.total_steps}, nll {nll:.4f}")


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a model directory."""
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    say(f"written to {folder}")


def say(text: str, started: float = time.monotonic()) -> None:
    """Print a line with the seconds since the start."""
    print(f"{time.monotonic() - started:6.0f} s  {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="model directory to write")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)

    tokenizer = train_tokenizer(texts(arguments.seed))
    renderer = ChatRenderer(tokenizer)
    say(f"tokenizer: {len(tokenizer)} tokens")
    clean = collect(NUM_LESSONS, CLEAN, renderer, arguments.seed, SHORT_SHARE)
    say(f"{len(clean)} clean lessons")
    model = make_model()
    run_drill(LocalTrainer(model, DRILL), find_symbols(clean, tokenizer), arguments.seed, say)
    read(model, tokenizer, arguments.seed)
    study(model, clean, LESSON, "acting", tokenizer, arguments.seed)
    save(model, tokenizer, arguments.out.with_name(f"{arguments.out.name}-competent"))
    habits = collect(NUM_HABIT_LESSONS, HABITS, renderer, arguments.seed + 1)
    study(model, habits, HABIT, "habits", tokenizer, arguments.seed)
    save(model, tokenizer, arguments.out)


if __name__ == "__main__":
    main()
