"""Layouts of ranks: bad ones are refused in one sentence, before anything is loaded, and smaller ones keep what they can."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from turnsmith.config import RunConfig, TrainerConfig, extras
from turnsmith.errors import UsageError
from turnsmith.recipes.faults import find_faults
from turnsmith.recipes.policy.fsdp import list_gpus
from turnsmith.recipes.policy.ranks import check_ranks
from turnsmith.training.fsdp.mesh import RankLayout


def make_config(**sections):
    trainer = {"kind": "fsdp", "num_ranks": 4} | sections.pop("trainer", {})
    return RunConfig(train_tasks={"practice_tasks": 1}, stages=[{}], trainer=trainer, **sections)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"trainer": {"cp": 3}}, r"^trainer\.cp 3 × dp_replicate 1 does not divide num_ranks 4: "),
        ({"trainer": {"num_ranks": 24, "cp": 24}}, r"^trainer\.cp 24 does not divide the model's \d+ attention heads"),
        ({"cluster": {"address": "head:6379"}}, r"^engine\.kind inprocess samples in the process that starts the run"),
        ({"model": {"path": "/nowhere"}}, r"/nowhere"),
    ],
)
def test_a_layout_that_cannot_work_is_refused_in_one_sentence(sections, message):
    with pytest.raises(UsageError, match=message) as caught:
        check_ranks(make_config(**sections))
    assert "\n" not in str(caught.value)
    assert str(caught.value) in [str(fault) for fault in find_faults(make_config(**sections))]


def test_ranks_without_ray_are_refused(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(
        UsageError, match=r"trainer\.kind fsdp needs ray: install it by `pip install 'turnsmith\[cluster\]'`"
    ):
        check_ranks(make_config())


def test_ranks_get_all_gpus_but_that_of_an_engine_in_the_same_process(monkeypatch):
    config = make_config()
    assert list_gpus(config, is_inprocess=False) is None
    monkeypatch.setattr("turnsmith.recipes.policy.fsdp.find_device", lambda name: torch.device("cuda"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,6")
    assert list_gpus(config, is_inprocess=True) == "5,6"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with pytest.raises(
        UsageError, match=r"^engine\.kind inprocess occupies the only GPU here, .*: use trainer\.kind local"
    ):
        list_gpus(config, is_inprocess=True)


def test_keys_of_ranks_need_the_trainer_with_ranks():
    with pytest.raises(ValidationError, match="cp needs ranks: set kind = fsdp"):
        TrainerConfig(cp=2)


@pytest.mark.parametrize("address", ["ray://head:10001", "head", "auto", "http://head:1"])
def test_an_address_is_a_host_and_a_port(address):
    with pytest.raises(ValidationError, match=r"cluster\.address"):
        make_config(cluster={"address": address})


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 80))
def test_a_smaller_cluster_keeps_cp_and_as_many_ranks_as_possible(cp, replicas, shards, num_places):
    layout = RankLayout(cp * replicas * shards, cp, replicas)
    size = layout.fit_size(num_places)
    if num_places < cp:
        assert size is None
        return
    smaller = layout.resize(size)
    assert smaller.cp == cp and smaller.num_ranks <= num_places < smaller.num_ranks + cp
    assert replicas % smaller.dp_replicate == 0
    assert layout.resize(layout.num_ranks) == layout
