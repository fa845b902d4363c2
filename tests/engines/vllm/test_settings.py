"""Refusal of servers with a wrong setting, for each setting."""

import pytest

from support.models.small_models import make_model
from turnsmith.engines.vllm.settings import ServerRequirements, find_problem


@pytest.fixture
def wanted(tmp_path):
    return ServerRequirements(
        tmp_path, make_model().config, "float32", max_context=200, num_episodes=8, kv_bytes=10**8, seed=0
    )


def told(wanted, **changes):
    """Return the settings of a correct server."""
    facts = {
        "version": "0.32.1", "device": "cpu", "dtype": "float32", "max_model_len": 200, "shape": wanted.shape,
        "rope": wanted.rope, "logprobs_mode": "raw_logprobs", "sampling_defaults": {}, "prefix_caching": True, "num_workers": 1,
        "quantization": None, "speculation": False, "unserved_heads": [],
    }  # fmt: skip
    return facts | changes


def test_correct_settings_are_accepted(wanted):
    assert find_problem(told(wanted), wanted) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", "0.33.0"),
        ("dtype", "bfloat16"),
        ("max_model_len", 199),
        ("rope", {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 512}),
        ("logprobs_mode", "processed_logprobs"),
        ("sampling_defaults", {"top_k": 20}),
        ("prefix_caching", False),
        ("quantization", "fp8"),
        ("speculation", True),
        ("unserved_heads", [8]),
    ],
)
def test_each_wrong_setting_is_named(wanted, name, value):
    shown = value[0] if name == "unserved_heads" else value
    assert str(shown) in find_problem(told(wanted, **{name: value}), wanted)
