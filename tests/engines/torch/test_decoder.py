"""Fast decoder path compared with the forward of transformers."""

from itertools import chain

import pytest
import torch

from support.models.small_models import make_model
from turnsmith.engines.torch.blocks import BlockStore, Span
from turnsmith.engines.torch.decoder import decode_by_forward, decode_llama, make_decoder
from turnsmith.engines.torch.paged_attention import BlockLayout, choose_parts


def plain_lasts(model, sequences):
    """Compute hidden states of each last token, sequence by sequence, with eager transformers."""
    model.set_attn_implementation("eager")
    return torch.cat([model.get_decoder()(torch.tensor([ids])).last_hidden_state[0, -1:] for ids in sequences])


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
@pytest.mark.parametrize("way", [decode_llama, decode_by_forward])
@torch.no_grad()
def test_hidden_states_equal_eager_transformers(kind, way):
    sequences = [[5], [5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6]]
    store = BlockStore(3, torch.device("cpu"))
    layout = BlockLayout(
        store,
        [Span([block], 0, len(ids)) for block, ids in enumerate(sequences)],
        choose_parts(store.device, torch.float32),
    )
    hidden = way(make_model(kind).get_decoder(), torch.tensor(list(chain.from_iterable(sequences))), layout)
    assert torch.allclose(hidden, plain_lasts(make_model(kind), sequences), atol=1e-5)


def test_fast_path_is_used_only_for_llama_models():
    assert make_decoder(make_model("qwen2")).func is decode_llama
    assert make_decoder(make_model("qwen2", hidden_act="gelu")).func is decode_by_forward
