"""Command line in this process, a random model with a tokenizer, and two practice tasks."""

import asyncio

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from support.models.small_tokenizers import make_tokenizer
from turnsmith.config import SandboxConfig
from turnsmith.sandboxes import make_provider
from turnsmith.synthesis.practice.making import PracticeSpec, make_practice_tasks


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory):
    """Return a directory with random weights and a ChatML tokenizer."""
    directory = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(directory)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=1, max_position_embeddings=8192, **sizes)
    Qwen2ForCausalLM(config).save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def task_folder(tmp_path_factory):
    """Return a folder with two practice tasks."""
    return make_tasks(PracticeSpec("train", 2, 0.0, seed=3), tmp_path_factory.mktemp("tasks") / "practice")


@pytest.fixture(scope="session")
def heldout_folder(tmp_path_factory):
    """Return a folder with two held-out practice tasks."""
    return make_tasks(PracticeSpec("heldout", 2, 0.0, seed=3), tmp_path_factory.mktemp("tasks") / "heldout")


def make_tasks(spec, folder):
    async def make():
        provider = make_provider(SandboxConfig())
        try:
            await make_practice_tasks(spec, folder, provider)
        finally:
            await provider.close()

    asyncio.run(make())
    return folder


@pytest.fixture
def config_file(tmp_path, model_directory, task_folder, heldout_folder):
    """Return a minimal configuration for the random model."""
    path = tmp_path / "small.toml"
    path.write_text(
        f"""
        model.path = "{model_directory}"
        model.threads = 1
        train_tasks.path = "{task_folder}"
        require_qualified = false
        eval_tasks.practice.path = "{heldout_folder}"
        agent = {{ prompts = "brief", max_context = 8192, max_new_tokens = 12, max_turns = 3 }}
        rollouts.concurrency = 2
        rft = {{ rollouts_per_task = 1, max_context = 8192, max_turns = 3 }}
        eval = {{ num_runs = 2, k = 2 }}
        [[stages]]
        iterations = 2
        max_silent_iterations = 9
        tasks_per_iteration = 2
        group_size = 2
        max_context = 8192
        max_turns = 3
        length_threshold = 2
        """
    )
    return path
