"""Layout and memory that `--dry-run` prints, and refusal of runs that do not fit into the described GPUs."""

import json
import re
from pathlib import Path

import pytest

from turnsmith.config import RunConfig
from turnsmith.config.files import load
from turnsmith.errors import UsageError
from turnsmith.recipes.plan import GIB, check_hardware, describe_layout, list_parts, plan_hardware

ROOT = Path(__file__).parents[2]
QWEN_72B = {
    "model_type": "qwen2", "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064, "tie_word_embeddings": False,
}  # fmt: skip
QWEN_7B = QWEN_72B | {
    "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4,
}  # fmt: skip
MODELS = {"paper-72b-stage1": QWEN_72B, "paper-72b-stage2": QWEN_72B, "qwen-7b-8gpu": QWEN_7B}


@pytest.fixture
def make_config(tmp_path):
    """Return a function that loads a configuration with a model directory that holds only `config.json`."""

    def make(name, *arguments):
        (tmp_path / "config.json").write_text(json.dumps(MODELS[name]))
        return load(ROOT / f"configs/{name}.toml", ["--model.path", str(tmp_path), *arguments], RunConfig)

    return make


@pytest.mark.parametrize("name", MODELS)
def test_the_configurations_for_many_gpus_fit_into_the_gpus_that_they_describe(make_config, name):
    check_hardware(make_config(name))


def test_the_paper_has_16_nodes_of_8_gpus(make_config):
    plan = plan_hardware(make_config("paper-72b-stage2"))
    layout = plan.layout
    assert (layout.num_ranks, layout.cp, layout.dp_shard, layout.dp, plan.num_tokens) == (128, 8, 16, 16, 131_072)
    assert plan.training.weights == 4 * 72_706_203_648 / 128
    assert plan.episode == 131_072 * 320 * 1024 / 8


def test_servers_with_gpus_of_their_own_take_no_memory_of_ranks(make_config):
    plan = plan_hardware(make_config("paper-72b-stage2", "--engine.placement", "own"))
    assert plan.engine_weights > 0 and plan.sampling == plan.engine_weights + plan.episode


def test_dry_run_prints_the_table_of_the_page(make_config, turnsmith, tmp_path):
    make_config("paper-72b-stage2")
    arguments = ["run", ROOT / "configs/paper-72b-stage2.toml", "--dry-run", "--model.path", tmp_path]
    result = turnsmith(*arguments)
    assert json.loads(result.stdout)["trainer"]["num_ranks"] == 128
    page = (ROOT / "docs/plan.md").read_text()
    [table] = re.findall(r"```\n(128 ranks.*?)```", page, re.DOTALL)
    assert [line.rstrip() for line in table.strip().splitlines()] == [
        line.rstrip() for line in result.stderr.partition("the configuration")[0].strip().splitlines()
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trainer.num_ranks", "16"], "one of 16 ranks needs about"),
        (["--trainer.activation_checkpointing", "none"], r"activations [\d,.]+.*: use more ranks"),
        (["--cluster.gpu_memory_gb", "40"], "cluster.gpu_memory_gb is 40"),
    ],
)
def test_a_layout_that_cannot_hold_the_model_is_refused_in_one_sentence(make_config, arguments, message):
    with pytest.raises(UsageError, match=message) as caught:
        check_hardware(make_config("paper-72b-stage2", *arguments))
    assert "\n" not in str(caught.value)


def test_memory_is_not_checked_without_the_size_of_a_gpu(make_config):
    check_hardware(make_config("paper-72b-stage2", "--trainer.num_ranks", "16", "--cluster.gpu_memory_gb", "null"))


def test_a_run_in_one_process_is_planned_from_the_shipped_policy():
    plan = plan_hardware(load(ROOT / "configs/laptop.toml", [], RunConfig))
    assert describe_layout(plan).startswith("1 rank:")
    parts = dict(list_parts(plan))
    assert parts["engine: weights"] == parts["communication"] == 0
    assert 0 < parts["training, peak"] < GIB


def test_an_engine_in_this_process_has_a_gpu_of_its_own_beside_ranks():
    arguments = ["--trainer.kind", "fsdp", "--trainer.num_ranks", "3"]
    plan = plan_hardware(load(ROOT / "configs/laptop.toml", arguments, RunConfig))
    assert plan.engine_weights == 3 * plan.training.weights
    assert plan.sampling == plan.engine_weights + plan.cache
    assert plan.peak == max(plan.sampling, plan.training.total)


@pytest.mark.parametrize(("given", "cache"), [("0.001", 0.001 * GIB), ("1000", None), ("null", None)])
def test_the_cache_of_an_engine_in_this_process_stays_while_the_trainer_trains(given, cache):
    config = load(ROOT / "configs/laptop.toml", ["--engine.kv_memory_gb", given], RunConfig)
    plan = plan_hardware(config)
    assert plan.cache == (cache or config.rollouts.concurrency * plan.episode)
    assert plan.peak == plan.training.total + plan.cache


def test_a_cache_of_automatic_size_takes_half_of_the_gpu_that_is_left():
    arguments = ["--cluster.gpu_memory_gb", "1", "--rollouts.concurrency", "1000"]
    plan = plan_hardware(load(ROOT / "configs/laptop.toml", arguments, RunConfig))
    assert plan.cache == (GIB - plan.training.total) / 2 > plan.episode
