"""Weight transport in a vLLM worker: weights arrive as sent, and a failed update leaves the worker ready for the next."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from support.models.small_models import make_model, stream
from turnsmith.engines.base import SavedWeights, SharedWeights, StreamedWeights
from turnsmith.engines.vllm import handover, inside
from turnsmith.engines.vllm.client import ServerRefused
from turnsmith.engines.vllm.handover import Sender, WeightsDiffer, hand_over, read_shapes
from turnsmith.errors import UsageError

STAND_IN = Path(__file__).parents[2] / "support/vllm_stand_in"


class Served(nn.Module):
    """Model that loads weights by name, like those of vLLM."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def load_weights(self, weights):
        own = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, tensor in weights:
                own[name].copy_(tensor)


class Worker:
    """Worker of a server, called as by HTTP; an error of the worker refuses the request."""

    host = "127.0.0.1"

    def __init__(self, transport):
        self.transport, self.version, self.num_chunks = transport, "", 0

    def call(self, method, route, body=None):
        if route == "/update_weight_version":
            self.version = body["new_version"]
        try:
            return self._phases(route, body)
        except (RuntimeError, KeyError) as error:
            raise ServerRefused(str(error)) from error

    def _phases(self, route, body):
        match route:
            case "/init_weight_transfer_engine":
                self.transport.init_transfer_engine(self.transport.init_info_cls(**body["init_info"]))
            case "/start_weight_update":
                self.transport.start_weight_update()
            case "/update_weights":
                self.num_chunks += 1
                self.transport.update_weights(body["update_info"])
            case "/finish_weight_update":
                self.transport.finish_weight_update()
            case "/reset_prefix_cache":
                return {"success": True}
        return None

    def ask_workers(self, method):
        assert method == "turnsmith_arrived"
        return [self.transport.arrived]


@pytest.fixture
def worker(monkeypatch):
    """Import the module as a worker does, next to the stand-in for vLLM, and make its transport."""
    for folder in (STAND_IN, Path(inside.__file__).parent):
        monkeypatch.syspath_prepend(str(folder))
    transport = importlib.import_module("turnsmith_vllm.transport")
    config = SimpleNamespace(model_config=None, parallel_config=SimpleNamespace(rank=0))
    yield Worker(transport.GroupTransport(None, config, torch.device("cpu"), Served(make_model(seed=0))))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("vllm", "turnsmith_vllm")]:
        del sys.modules[name]


def connect(worker):
    return Sender(worker, "gloo", 1, check_held=False)


def send(weights, sender):
    [error] = hand_over(weights, torch.float32, [sender])
    return error


def assert_loaded(worker, model):
    for name, tensor in model.state_dict().items():
        assert torch.equal(worker.transport.model.model.state_dict()[name], tensor), name


def test_weights_of_each_kind_of_source_arrive_in_chunks(worker, tmp_path, monkeypatch):
    monkeypatch.setattr(handover, "CHUNK_BYTES", 10_000)
    sender = connect(worker)
    models = {version: make_model(seed=version) for version in (1, 2, 3)}
    models[2].save_pretrained(tmp_path / "new")
    for source in (SharedWeights(1, models[1]), SavedWeights(2, tmp_path / "new"), stream(models[3], 3)):
        worker.num_chunks, version = 0, source.policy_version
        assert send(handover.stream(source), sender) is None
        assert worker.version == str(version) and worker.num_chunks > 3
        assert_loaded(worker, models[version])


def test_shapes_of_a_directory_are_those_of_its_model(tmp_path):
    for kind in ("qwen2", "llama", "tied, with a copy"):
        model = make_model(kind if kind == "llama" else "qwen2")
        model.save_pretrained(tmp_path / kind)
        if "copy" in kind:
            copies = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            assert "lm_head.weight" in copies
            save_file(copies, tmp_path / kind / "model.safetensors")
        shapes = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
        assert read_shapes(tmp_path / kind) == shapes
    with pytest.raises(UsageError, match=r"has no model\.safetensors|cannot be read"):
        read_shapes(tmp_path)


def test_a_bit_that_changes_on_the_way_is_detected(worker):
    sender = connect(worker)
    receive = worker.transport.group.receive

    def spoil(shapes, dtype):
        tensors = receive(shapes, dtype)
        if worker.num_chunks == 3:
            tensors[0].view(torch.int32).view(-1)[0] ^= 1
        return tensors

    worker.transport.group.receive = spoil
    assert isinstance(send(stream(make_model(seed=1), 1), sender), WeightsDiffer)
    assert worker.version == handover.NO_VERSION
    worker.num_chunks = 10
    assert send(stream(make_model(seed=1), 1), sender) is None


def test_a_worker_that_refuses_a_chunk_leaves_the_group_and_takes_the_next_update_of_a_new_sender(worker):
    sender = connect(worker)
    other = stream(make_model(seed=1, num_hidden_layers=3), 1)
    assert isinstance(send(other, sender), ServerRefused)
    assert worker.version == handover.NO_VERSION
    assert send(stream(make_model(seed=2), 2), connect(worker)) is None
    assert_loaded(worker, make_model(seed=2))


def test_an_update_whose_source_fails_is_ended_and_the_next_one_succeeds(worker):
    sender, good = connect(worker), stream(make_model(seed=1), 1)

    def read():
        yield from list(good.read())[:3]
        raise OSError("the trainer is gone")

    with pytest.raises(OSError, match="trainer is gone"):
        send(StreamedWeights(1, good.shapes, read), sender)
    assert worker.version == handover.NO_VERSION
    assert send(good, sender) is None
    assert_loaded(worker, make_model(seed=1))


def test_nccl_without_a_gpu_is_refused(worker, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r'engine\.vllm\.backend is nccl.*set it to "gloo"'):
        Sender(worker, "nccl", 1, check_held=False)
