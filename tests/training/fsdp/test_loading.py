"""Loading of weights into shards: equal to transformers bit by bit, own slices only, the errors of the local trainer."""

import asyncio
import json
from contextlib import contextmanager

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, BloomConfig, GenerationConfig

from support.models.small_models import make_model
from support.sharded import make_batch, make_loss
from turnsmith.config import ModelConfig, OptimizerConfig, RopeScaling, TrainerConfig
from turnsmith.errors import UsageError
from turnsmith.training.directories import check_model
from turnsmith.training.fsdp import loading
from turnsmith.training.fsdp.mesh import RankLayout
from turnsmith.training.fsdp.opening import RankStart
from turnsmith.training.model import load_model

YARN = RopeScaling(factor=4.0)


def shard(model, *shape):
    """Shard each layer, then the rest; two numbers of `shape` are replicas and shards."""
    shape = shape or (distributed.get_world_size(),)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def load(directory, *shape, scaling=None):
    model = shard(loading.build_empty(ModelConfig(path=str(directory), rope_scaling=scaling)), *shape)
    loading.fill(model, directory, torch.device("cpu"))
    return model


def list_tensors(model):
    """Map the names of all weights and buffers to whole tensors."""
    named = dict(model.named_parameters()) | dict(model.named_buffers())
    return {name: each.full_tensor() if isinstance(each, DTensor) else each for name, each in named.items()}


def find_differences(directory, model, scaling=None):
    """List the names of tensors of a sharded model that differ from those of the local trainer's model."""
    ours, theirs = list_tensors(model), list_tensors(load_model(ModelConfig(path=str(directory), rope_scaling=scaling)))
    assert ours.keys() == theirs.keys()
    return [name for name in ours if ours[name].dtype != torch.float32 or not torch.equal(ours[name], theirs[name])]


def compare_all(directories):
    """List the differences of each model in shards, of the first one in replicas, and of the second one with YaRN."""
    differences = [find_differences(directory, load(directory)) for directory in directories]
    first, second, *_ = directories
    return [
        *differences,
        find_differences(first, load(first, 2, 2)),
        find_differences(second, load(second, scaling=YARN), YARN),
    ]


class RecordedTensor:
    """Stored tensor that counts the bytes of the parts that are indexed, the only ones that are read."""

    def __init__(self, stored, counts):
        self.get_shape, self._stored, self._counts = stored.get_shape, stored, counts

    def __getitem__(self, place):
        part = self._stored[place]
        self._counts.append(part.numel() * part.itemsize)
        return part


def measure(directory):
    """Return the number of bytes that this rank reads of the weights in a directory."""
    model, counts = shard(loading.build_empty(ModelConfig(path=str(directory)))), []
    open_weights = loading.open_weights

    @contextmanager
    def record(directory):
        with open_weights(directory) as stored:
            yield {name: RecordedTensor(tensor, counts) for name, tensor in stored.items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "open_weights", record)
        loading.fill(model, directory, torch.device("cpu"))
    return sum(counts)


@pytest.fixture
def directories(tmp_path):
    """Make models of all families, tied and untied, in float32 and bfloat16, in one file and in several."""
    made = []
    for kind in ("qwen2", "qwen3", "llama", "mistral"):
        changes = {"sliding_window": None} if kind == "mistral" else {}
        for tied in (True, False):
            made.append(tmp_path / f"{kind}-{'tied' if tied else 'untied'}")
            model = make_model(kind, tie_word_embeddings=tied, **changes)
            model = model if tied else model.to(torch.bfloat16)
            model.save_pretrained(made[-1], max_shard_size="10KB" if tied else "5GB")
    pickled = tmp_path / "qwen2-pickled"
    model = make_model()
    model.config.save_pretrained(pickled)
    torch.save(model.state_dict(), pickled / "pytorch_model.bin")
    return [*made, pickled]


@pytest.mark.slow
def test_shards_of_all_families_equal_the_local_model(ranks, directories):
    assert ranks(4, compare_all, directories) == [[[]] * 11] * 4


def test_the_ranks_together_read_each_byte_once(ranks, tmp_path):
    model = make_model("qwen3", vocab_size=64)
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    whole = sum(2 * parameter.numel() for parameter in model.parameters())
    assert ranks(4, measure, tmp_path) == [whole / 4] * 4


def test_generation_settings_come_along(tmp_path):
    make_model().save_pretrained(tmp_path)
    GenerationConfig(eos_token_id=[3, 5]).save_pretrained(tmp_path)
    assert loading.build_empty(ModelConfig(path=str(tmp_path))).generation_config.eos_token_id == [3, 5]


def cut_file(directory):
    file = directory / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def rename_weight(directory):
    file = directory / "model.safetensors"
    file.write_bytes(file.read_bytes().replace(b"model.norm.weight", b"model.mron.weight"))


def change_shape(directory):
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"intermediate_size": 40}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda directory: (directory / "config.json").unlink(), "config.json is missing"),
        (lambda directory: (directory / "model.safetensors").unlink(), "weights, i.e. model.safetensors"),
        (cut_file, "model.safetensors cannot be read"),
        (rename_weight, "1 weights of the model are missing from all files, e.g. model.norm.weight"),
        (change_shape, "has shape"),
    ],
)
def test_a_faulty_directory_raises_the_error_of_the_local_trainer(tmp_path, damage, message):
    make_model().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").touch()
    damage(tmp_path)
    config = ModelConfig(path=str(tmp_path))
    with pytest.raises(UsageError, match=message):
        loading.fill(loading.build_empty(config), tmp_path, torch.device("cpu"))
    with pytest.raises(UsageError) as local:
        check_model(config.path)
        load_model(config)
    assert str(tmp_path) in str(local.value)
    assert message in str(local.value) or damage is change_shape


def test_unsupported_models_are_refused(tmp_path):
    make_model("mistral", sliding_window=8).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="sliding_window 8"):
        loading.build_empty(ModelConfig(path=str(tmp_path)))


def open_trainers(directory, dtypes):
    """Open the trainer of a rank in each dtype; return the errors."""
    errors = []
    for dtype in dtypes:
        model, trainer = ModelConfig(device="cpu", dtype=dtype), TrainerConfig(kind="fsdp", num_ranks=2)
        start = RankStart(directory, model, trainer, RankLayout(2), OptimizerConfig())
        try:
            start(distributed.get_rank(), 2).close()
        except UsageError as error:
            errors.append(str(error))
    return errors


def test_models_whose_samples_cannot_be_packed_are_refused(ranks, tmp_path):
    make_model("llama").save_pretrained(tmp_path / "llama")
    sizes = {"vocab_size": 61, "hidden_size": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.3}
    AutoModelForCausalLM.from_config(BloomConfig(**sizes)).save_pretrained(tmp_path / "bloom")
    message = (
        f"the model at {tmp_path}/bloom uses custom attention code, so samples cannot be packed: use another model"
    )
    assert ranks(2, open_trainers, tmp_path / "llama", ["float32", "bfloat16"]) == [[], []]
    assert ranks(2, open_trainers, tmp_path / "bloom", ["float32"]) == [[message]] * 2


def open_lean_trainer(directory):
    """Open the trainer of a rank with keys for memory; return its moments, and the forward passes of an MLP in one round."""
    config = TrainerConfig(kind="fsdp", num_ranks=2, activation_checkpointing="full", moments="bfloat16")
    start = RankStart(directory, ModelConfig(device="cpu"), config, RankLayout(2), OptimizerConfig())
    trainer, calls, batch = start(distributed.get_rank(), 2), [], make_batch()[:2]
    assert all(isinstance(each, DTensor) for each in trainer.model.parameters())
    trainer.model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    asyncio.run(trainer.step(batch, make_loss("nll", batch)))
    moments = {state["exp_avg"].dtype for state in trainer.optimizer.state.values()}
    trainer.close()
    return moments, len(calls)


def test_ranks_open_their_trainer_with_the_keys_for_memory(ranks, tmp_path):
    make_model().save_pretrained(tmp_path)
    assert ranks(2, open_lean_trainer, tmp_path) == [({torch.bfloat16}, 2)] * 2


def test_weights_of_another_model_do_not_fit_shards(tmp_path):
    make_model(hidden_size=16).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=f"the checkpoint at {tmp_path} does not fit the model"):
        loading.load_shards(make_model(), tmp_path)


def test_a_single_process_model_equals_transformers(tmp_path):
    make_model(tie_word_embeddings=False).save_pretrained(tmp_path)
    model = loading.build_empty(ModelConfig(path=str(tmp_path)))
    loading.fill(model, tmp_path, torch.device("cpu"))
    plain = list_tensors(AutoModelForCausalLM.from_pretrained(tmp_path))
    assert all(torch.equal(each, plain[name]) for name, each in list_tensors(model).items())
