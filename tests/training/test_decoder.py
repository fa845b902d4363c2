"""The decoder in few calls against the forward of transformers."""

from itertools import chain

import pytest
import torch

from turnsmith.engines.decoder import LlamaDecoder, OwnForward, make_decoder
from turnsmith.training.attention import PackedLayout


def plain_selected(model, sequences, selected):
    """Hidden states sequence by sequence, mask and all, by eager transformers."""
    model.set_attn_implementation("eager")
    hidden = torch.cat([model.get_decoder()(torch.tensor([ids])).last_hidden_state[0] for ids in sequences])
    return hidden[selected]


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
@pytest.mark.parametrize("way", [LlamaDecoder, OwnForward])
@pytest.mark.parametrize("selected", [[0], [3, 4, 9], [11], list(range(12))])
def test_hidden_states_and_gradients_equal_eager_transformers(make_model, kind, way, selected):
    sequences = [[5, 6, 7, 8, 9], [5], [1, 2, 3, 4, 5, 6]]
    weights, gradients = torch.randn(len(selected), 32), []
    ours, plain = make_model(kind), make_model(kind)
    layout = PackedLayout([len(ids) for ids in sequences], selected=torch.tensor(selected))
    hidden = way(ours)(torch.tensor(list(chain.from_iterable(sequences))), layout)
    expected = plain_selected(plain, sequences, selected)
    assert torch.allclose(hidden, expected, atol=1e-5)
    for model, states in ((ours, hidden), (plain, expected)):
        (states * weights).sum().backward()
        gradients.append([parameter.grad for parameter in model.get_decoder().parameters()])
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*gradients, strict=True))


def test_the_short_way_is_taken_for_its_family_only(make_model):
    assert isinstance(make_decoder(make_model("qwen2")), LlamaDecoder)
    assert isinstance(make_decoder(make_model("qwen2", hidden_act="gelu")), OwnForward)
