"""Checkpoints: complete Hugging Face directories, written atomically."""

import resource
from contextlib import contextmanager

import pytest
import torch
from transformers import AutoModelForCausalLM

from turnsmith.config import ModelConfig, OptimizerConfig
from turnsmith.engines.weights import load_weights
from turnsmith.errors import UsageError
from turnsmith.training.checkpoint import replacing_directory
from turnsmith.training.local import LocalTrainer
from turnsmith.training.model import load_model


@contextmanager
def files_of_at_most(num_bytes):
    """Limit the file size in the kernel, which acts like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def read_files(directory):
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def directory(make_model, tmp_path):
    """Make a model directory with tokenizer files."""
    make_model().save_pretrained(tmp_path / "base")
    (tmp_path / "base" / "tokenizer.json").write_text('{"a": 1}')
    (tmp_path / "base" / "chat_template.jinja").write_text("{{ messages }}")
    return tmp_path / "base"


@pytest.fixture
def trainer(directory):
    return LocalTrainer(load_model(ModelConfig(path=str(directory))), OptimizerConfig(), total_steps=1)


async def test_a_checkpoint_is_a_hugging_face_directory_with_its_tokenizer(trainer, directory, tmp_path):
    await trainer.save(tmp_path / "checkpoint")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint")
    pairs = zip(trainer.model.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (tmp_path / "checkpoint" / name).read_bytes() == (directory / name).read_bytes()


async def test_checkpoint_of_a_checkpoint_has_the_tokenizer(trainer, tmp_path):
    await trainer.save(tmp_path / "first")
    second = LocalTrainer(load_model(ModelConfig(path=str(tmp_path / "first"))), OptimizerConfig(), total_steps=1)
    await second.save(tmp_path / "second")
    assert (tmp_path / "second" / "tokenizer.json").is_file()


async def test_saving_again_replaces_the_whole_directory(trainer, tmp_path):
    await trainer.save(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "stale").write_text("x")
    await trainer.save(tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint" / "stale").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "checkpoint"]


@pytest.mark.parametrize("room", [100, 3_000, 60_000])
async def test_full_disk_raises_usage_error_and_keeps_the_old_checkpoint(trainer, tmp_path, room):
    await trainer.save(tmp_path / "checkpoint")
    before = read_files(tmp_path / "checkpoint")
    with files_of_at_most(room), pytest.raises(UsageError, match=f"cannot write {tmp_path}/checkpoint"):
        await trainer.save(tmp_path / "checkpoint")
    assert read_files(tmp_path / "checkpoint") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "checkpoint"]


def test_interrupt_while_writing_leaves_no_files(tmp_path):
    with pytest.raises(KeyboardInterrupt), replacing_directory(tmp_path / "checkpoint") as temporary:
        (temporary / "half").write_text("x")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_loading_weights_keeps_storage_and_ties(make_model, tmp_path):
    make_model(seed=4).save_pretrained(tmp_path)
    model = make_model(seed=1)
    pointer = model.lm_head.weight.data_ptr()
    load_weights(tmp_path, model)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr() == pointer
    pairs = zip(model.parameters(), make_model(seed=4).parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_weights_of_another_shape_raise_usage_error(make_model, tmp_path):
    make_model(hidden_size=16).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="does not fit"):
        load_weights(tmp_path, make_model())
