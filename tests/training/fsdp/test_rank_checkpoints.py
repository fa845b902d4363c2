"""Checkpoints of ranks: any number of ranks and one process resume exactly; a failed or killed save leaves the old one whole."""

import asyncio
import os
import random
import resource
import signal
import threading

import numpy as np
import pytest
import torch
from torch import distributed
from transformers import AutoModelForCausalLM

from support.models.small_models import make_model
from support.ranks import RankDied
from support.sharded import CPU, OPTIMIZER, Case, make_batch, make_loss, open_trainer
from turnsmith.chat.tokenizers import load_renderer
from turnsmith.config import ChatConfig, ModelConfig
from turnsmith.errors import UsageError
from turnsmith.training.directories import find_model
from turnsmith.training.export import write_model
from turnsmith.training.fsdp import checkpoint, loading
from turnsmith.training.fsdp.mesh import RankLayout, open_mesh
from turnsmith.training.fsdp.sharding import shard_model
from turnsmith.training.fsdp.trainer import ShardedTrainer
from turnsmith.training.local import LocalTrainer

pytestmark = pytest.mark.slow

LAYOUTS = {1: RankLayout(1), 2: RankLayout(2, cp=2), 4: RankLayout(4, cp=2, dp_replicate=2)}
"""Layout of each number of ranks; checkpoints move between different kinds of layouts."""
FAMILIES = {
    "qwen2": {},
    "qwen3": {"tie_word_embeddings": False},
    "llama": {"num_key_value_heads": 1},
    "mistral": {"sliding_window": None, "vocab_size": 62},
}


WIDE = {"hidden_size": 64, "intermediate_size": 128}
"""Sizes of a model whose larger weights have 8-bit moments, also in halves."""


async def take_steps(trainer, num_steps):
    """Make steps on the same batch; return the losses."""
    batch = make_batch()
    loss_fn = make_loss("dapo", batch)
    return [(await trainer.step(batch, loss_fn))["loss/total"] for _ in range(num_steps)]


def draw():
    """Draw from all random generators."""
    return torch.rand(2).tolist(), random.random(), np.random.rand()


def open_ranks(**changes):
    return open_trainer(Case(LAYOUTS[distributed.get_world_size()], **changes))


def list_files(directory):
    """Map the files of a directory to their contents."""
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def save_twice_and_go_on(folder):
    """Save after two steps, once while two further steps are made; return the losses and random numbers that follow."""
    torch.manual_seed(distributed.get_rank())
    trainer = open_ranks()
    await take_steps(trainer, 2)
    await trainer.save(folder / "waited")
    may_end, describe = threading.Event(), checkpoint.describe

    def describe_late(*arguments):
        assert may_end.wait(60)
        describe(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "describe", describe_late)
        saving = asyncio.create_task(trainer.save(folder / "meanwhile"))
        await asyncio.sleep(0)
        losses = await take_steps(trainer, 3)
        assert not saving.done()
        may_end.set()
        await saving
    numbers = draw()
    trainer.close()
    return losses, numbers, trainer.read_counters()


async def load_and_go_on(trainer, directory):
    await trainer.load(directory)
    before = trainer.read_counters()
    losses, numbers = await take_steps(trainer, 3), draw()
    trainer.close()
    return losses, numbers, before


def save_on_ranks(folder):
    return asyncio.run(save_twice_and_go_on(folder))


def resume_on_ranks(directory):
    return asyncio.run(load_and_go_on(open_ranks(), directory))


def resume_here(directory):
    return asyncio.run(load_and_go_on(LocalTrainer(make_model("qwen3", seed=9), OPTIMIZER), directory))


def test_a_checkpoint_of_four_ranks_resumes_on_four_two_and_one(ranks, tmp_path):
    saved = ranks(4, save_on_ranks, tmp_path)
    losses, _, _ = saved[0]
    assert all(each[0] == losses for each in saved)
    # Generators differ between ranks, and saving must not wait for the steps.
    assert len({str(numbers) for _, numbers, _ in saved}) == 4
    weights = [list_files(tmp_path / name) for name in ("waited", "meanwhile")]
    assert weights[0].keys() == weights[1].keys()
    assert all(weights[0][name] == weights[1][name] for name in weights[0] if name.suffix == ".safetensors")
    for directory, num_ranks in (("waited", 4), ("meanwhile", 2), ("waited", 1)):
        for rank, (resumed, numbers, counters) in enumerate(ranks(num_ranks, resume_on_ranks, tmp_path / directory)):
            assert resumed == pytest.approx(losses, rel=1e-6, abs=1e-6)
            assert numbers == saved[rank][1]
            assert counters == {"num_steps": 2, "total_steps": 0, "policy_version": 2}
    resumed, numbers, _ = resume_here(tmp_path / "meanwhile")
    assert resumed == pytest.approx(losses, rel=1e-6, abs=1e-6)
    assert numbers == saved[0][1]


async def save_here(folder):
    """Save by the trainer of one process: after two steps, and before the first."""
    trainer = LocalTrainer(make_model("qwen3"), OPTIMIZER)
    await trainer.save(folder / "fresh")
    await take_steps(trainer, 2)
    await trainer.save(folder / "begun")
    return await take_steps(trainer, 3), draw()


def resume_both(folder):
    return [asyncio.run(load_and_go_on(open_ranks(), folder / name)) for name in ("fresh", "begun")]


async def test_a_checkpoint_of_one_process_resumes_on_ranks(ranks, tmp_path):
    losses, numbers = await save_here(tmp_path)
    from_the_start = await take_steps(LocalTrainer(make_model("qwen3"), OPTIMIZER), 3)
    for rank, (fresh, begun) in enumerate(ranks(2, resume_both, tmp_path)):
        assert fresh[0] == pytest.approx(from_the_start, rel=1e-6, abs=1e-6)
        assert begun[0] == pytest.approx(losses, rel=1e-6, abs=1e-6)
        assert (begun[1] == numbers) == (rank == 0)


async def resume_moments(folder):
    """Return, for each kind of moments, the losses of a trainer and of one that resumes it."""
    losses = {}
    for kind in ("bfloat16", "8bit", "host"):
        trainers = []
        for seed in (0, 1):
            mesh = open_mesh(RankLayout(2), CPU)
            model = shard_model(make_model(seed=seed, **WIDE), mesh)
            trainers.append(ShardedTrainer(model, mesh, OPTIMIZER, moments=kind))
        first, second = trainers
        await take_steps(first, 2)
        await first.save(folder / kind)
        await second.load(folder / kind)
        losses[kind] = await take_steps(first, 2), await take_steps(second, 2)
    return losses


def resume_moments_on_ranks(folder):
    return asyncio.run(resume_moments(folder))


async def test_all_kinds_of_moments_resume(ranks, tmp_path):
    [losses, _] = ranks(2, resume_moments_on_ranks, tmp_path)
    for kind, (expected, resumed) in losses.items():
        assert resumed == expected, kind
        here = LocalTrainer(make_model(seed=2, **WIDE), OPTIMIZER, moments=kind)
        await here.load(tmp_path / kind)
        assert await take_steps(here, 2) == pytest.approx(expected, abs=1e-3 if kind == "8bit" else 1e-6)


def save_families(folder):
    """Save a model of each family before and after a step; return the weights after it."""
    weights = {}
    for kind, changes in FAMILIES.items():
        trainer = open_ranks(kind=kind, changes=changes)
        asyncio.run(take_steps(trainer, 1))
        asyncio.run(trainer.save(folder / kind))
        weights[kind] = {name: p.full_tensor().detach() for name, p in trainer.model.named_parameters()}
    return weights


def test_checkpoints_of_all_families_load_in_transformers_bit_by_bit(ranks, tmp_path):
    weights = ranks(4, save_families, tmp_path)[0]
    for kind in FAMILIES:
        model = AutoModelForCausalLM.from_pretrained(tmp_path / kind)
        loaded = dict(model.named_parameters())
        assert loaded.keys() == weights[kind].keys()
        assert all(torch.equal(loaded[name], weights[kind][name]) for name in loaded)
        assert (model.config.architectures, model.dtype) == ([type(model).__name__], torch.float32)
        assert sorted(path.name for path in (tmp_path / kind).iterdir()) == [
            "config.json", "generation_config.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json",
            "optimizer", "trainer.pt",
        ]  # fmt: skip


def train_tiny(directory):
    """Train the policy that the package contains, from its files into a checkpoint."""
    base = find_model("tiny")
    mesh = open_mesh(RankLayout(2), CPU)
    model = shard_model(loading.build_empty(ModelConfig(path=str(base))), mesh)
    loading.fill(model, base, CPU)
    trainer = ShardedTrainer(model, mesh, OPTIMIZER)
    asyncio.run(take_steps(trainer, 1))
    asyncio.run(trainer.save(directory))
    asyncio.run(trainer.export(directory.with_name("published")))
    return {name: parameter.full_tensor().detach() for name, parameter in model.named_parameters()}


def test_an_export_has_the_weights_of_the_ranks(ranks, tmp_path):
    weights = ranks(2, train_tiny, tmp_path / "checkpoint")[0]
    (tmp_path / "out").mkdir()
    write_model(tmp_path / "checkpoint", tmp_path / "out", "float32", ChatConfig())
    for directory in (tmp_path / "out", tmp_path / "published"):
        exported = AutoModelForCausalLM.from_pretrained(directory)
        assert all(torch.equal(parameter, weights[name]) for name, parameter in exported.named_parameters())
        load_renderer(directory, ChatConfig())
        assert not (directory / "optimizer").exists()
        assert not (directory / "trainer.pt").exists()


def kill_while_saving(directory, function):
    """Save, then kill rank 1 at a function of the second save."""
    trainer = open_ranks()
    asyncio.run(trainer.save(directory))
    distributed.barrier()
    if distributed.get_rank() == 1:
        setattr(checkpoint, function, lambda *arguments: os.kill(os.getpid(), signal.SIGKILL))
    asyncio.run(take_steps(trainer, 1))
    asyncio.run(trainer.save(directory))


@pytest.mark.parametrize("function", ["write_model", "write_state", "gather_objects"])
def test_a_kill_while_saving_leaves_the_old_checkpoint_whole(ranks, tmp_path, function):
    directory = tmp_path / "checkpoint"
    with pytest.raises(RankDied):
        ranks(2, kill_while_saving, directory, function)
    model, plain = AutoModelForCausalLM.from_pretrained(directory), make_model("qwen3")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))
    [(losses, _, counters)] = ranks(1, resume_on_ranks, directory)
    assert counters["num_steps"] == 0
    assert losses == resume_here(directory)[0]


def fill_disk(directory):
    """Save where rank 1 cannot write; return the error of each rank and the files after it."""
    trainer = open_ranks()
    asyncio.run(trainer.save(directory))
    asyncio.run(take_steps(trainer, 1))
    before = list_files(directory)
    distributed.barrier()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if distributed.get_rank() == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        asyncio.run(trainer.save(directory))
    except UsageError as error:
        return str(error), list_files(directory) == before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_all_ranks_report_a_full_disk_of_one(ranks, tmp_path):
    (tmp_path / ".checkpoint.ranks.tmp").mkdir()
    (tmp_path / ".checkpoint.ranks.tmp" / "left by a killed process").touch()
    for message, is_unchanged in ranks(2, fill_disk, tmp_path / "checkpoint"):
        assert message.startswith(f"cannot write {tmp_path}/checkpoint: ")
        assert "File too large" in message
        assert is_unchanged
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert not (tmp_path / "checkpoint" / "left by a killed process").exists()


def save_below_a_file(directory):
    with pytest.raises(UsageError) as caught:
        asyncio.run(open_ranks().save(directory))
    return str(caught.value)


def test_all_ranks_report_that_the_first_cannot_write(ranks, tmp_path):
    (tmp_path / "file").touch()
    for message in ranks(2, save_below_a_file, tmp_path / "file" / "checkpoint"):
        assert message.startswith(f"cannot write {tmp_path}/file/checkpoint: ")


def collect_errors(folder):
    errors = []
    for name in ("nothing", "other", "damaged", "old", "mixed"):
        with pytest.raises(UsageError) as caught:
            asyncio.run(open_ranks().load(folder / name))
        errors.append(str(caught.value))
    return errors


async def test_unusable_checkpoints_raise_the_same_error_on_all_ranks(ranks, tmp_path):
    for name, changes in (("other", {"hidden_size": 16}), ("damaged", {}), ("old", {}), ("mixed", {})):
        trainer = LocalTrainer(make_model("qwen3", **changes), OPTIMIZER)
        await take_steps(trainer, 1)
        await trainer.save(tmp_path / name)
    [data] = (tmp_path / "damaged" / "optimizer").glob("*.distcp")
    data.write_bytes(data.read_bytes()[:100])
    torch.save({"optimizer": {}, "rng": torch.get_rng_state()}, tmp_path / "old" / "trainer.pt")
    (tmp_path / "mixed" / "optimizer").rename(tmp_path / "unused")
    (tmp_path / "other" / "optimizer").rename(tmp_path / "mixed" / "optimizer")
    for errors in ranks(2, collect_errors, tmp_path):
        nothing, other, damaged, old, mixed = errors
        assert nothing == f"cannot resume from {tmp_path}/nothing: trainer.pt is missing"
        assert other.startswith(f"the checkpoint at {tmp_path}/other does not fit the model: ") and "shape" in other
        assert damaged.startswith(f"the checkpoint at {tmp_path}/damaged does not fit the model: ")
        assert "earlier version" in old
        assert mixed.startswith(
            f"the checkpoint at {tmp_path}/mixed does not fit the model: the state of the optimizer"
        )


async def test_the_trainer_of_one_process_reads_checkpoints_of_version_0_1(tmp_path):
    trainer = LocalTrainer(make_model(), OPTIMIZER)
    await take_steps(trainer, 2)
    await trainer.save(tmp_path)
    state = {"optimizer": trainer.optimizer.state_dict(), "rng": torch.get_rng_state(), **trainer.read_counters()}
    torch.save(state, tmp_path / "trainer.pt")
    again = LocalTrainer(make_model(seed=1), OPTIMIZER)
    await again.load(tmp_path)
    assert await take_steps(again, 2) == await take_steps(trainer, 2)


def test_weights_are_divided_among_files_by_size():
    weights = {"a": torch.zeros(3), "b": torch.zeros(2), "c": torch.zeros(9), "d": torch.zeros(1)}
    assert checkpoint.number_files(weights, max_bytes=20) == {"a": 1, "b": 1, "c": 2, "d": 3}
