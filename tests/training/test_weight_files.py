"""Weight files checked by headers and shard index, before anything is loaded."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from turnsmith.errors import UsageError
from turnsmith.training.directories import check_model

TENSORS = {"first": np.arange(6.0), "second": np.ones((2, 3))}


@pytest.fixture
def model(tmp_path):
    """Make a model directory without weights."""
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    return tmp_path


def save_shards(model):
    weight_map = {}
    for name, tensor in TENSORS.items():
        save_file({name: tensor}, model / f"{name}.safetensors")
        weight_map[name] = f"{name}.safetensors"
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def save_by_torch(model, **options):
    torch.save(
        {name: torch.from_numpy(tensor) for name, tensor in TENSORS.items()}, model / "pytorch_model.bin", **options
    )


def test_complete_weights_of_each_layout_are_accepted(model):
    save_by_torch(model, _use_new_zipfile_serialization=False)
    check_model(str(model))
    save_by_torch(model)
    check_model(str(model))
    save_shards(model)
    check_model(str(model))
    save_file(TENSORS, model / "model.safetensors")
    check_model(str(model))


@settings(max_examples=20)
@given(share=st.floats(0, 1, exclude_max=True))
@pytest.mark.parametrize("save", [lambda model: save_file(TENSORS, model / "model.safetensors"), save_by_torch])
def test_weights_cut_anywhere_are_refused(tmp_path_factory, save, share):
    model = tmp_path_factory.mktemp("cut")
    for name in ("config.json", "tokenizer.json"):
        (model / name).write_text("{}")
    save(model)
    [file] = [*model.glob("*.bin"), *model.glob("*.safetensors")]
    os.truncate(file, int(share * file.stat().st_size))
    with pytest.raises(UsageError, match=f"{file.name} cannot be read .*: download that file again"):
        check_model(str(model))
    shutil.rmtree(model)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_git_lfs_pointer_is_refused(model, name):
    (model / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1f3a\nsize 3209\n")
    with pytest.raises(UsageError, match=f"{name} cannot be read"):
        check_model(str(model))


def test_shards_are_compared_with_their_index(model):
    save_shards(model)
    save_file({"other": TENSORS["first"]}, model / "first.safetensors")
    with pytest.raises(UsageError, match="it lacks first"):
        check_model(str(model))
    (model / "first.safetensors").unlink()
    with pytest.raises(UsageError, match=r"first\.safetensors .* missing"):
        check_model(str(model))


def test_error_for_unopenable_file_has_the_system_error(model):
    save_shards(model)
    (model / "first.safetensors").unlink()
    (model / "first.safetensors").symlink_to(model / "first.safetensors")
    with pytest.raises(UsageError, match="symbolic links"):
        check_model(str(model))


MAPS = st.dictionaries(st.text() | st.just("weight_map"), st.none() | st.text())


@given(text=st.text() | MAPS.map(json.dumps) | MAPS.map(lambda names: json.dumps({"weight_map": names})))
def test_arbitrary_index_text_is_read_or_refused(tmp_path_factory, text):
    model = tmp_path_factory.getbasetemp() / "indexed"
    model.mkdir(exist_ok=True)
    for name in ("config.json", "tokenizer.json"):
        (model / name).write_text("{}")
    (model / "model.safetensors.index.json").write_text(text)
    with pytest.raises(UsageError):
        check_model(str(model))


def test_shards_without_an_index_are_refused(model):
    save_file(TENSORS, model / "model-00001-of-00001.safetensors")
    with pytest.raises(UsageError, match=r"weights, i\.e\. .* is missing"):
        check_model(str(model))
