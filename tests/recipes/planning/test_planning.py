"""Plans: simulation on a virtual clock, calibration by a real demo run, refusals, bottleneck and changes."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnsmith.config import RunConfig
from turnsmith.config.files import load
from turnsmith.errors import UsageError
from turnsmith.recipes.plan import plan_hardware
from turnsmith.recipes.planning.calibration import MeasuredIteration
from turnsmith.recipes.planning.changes import name_bottleneck
from turnsmith.recipes.planning.estimate import Premises, list_peak, plan_run, refuse_too_large
from turnsmith.recipes.planning.hardware import GIGA, TABLE, TERA, Hardware, find_hardware
from turnsmith.recipes.planning.prediction import find_errors
from turnsmith.recipes.planning.rates import count_flops
from turnsmith.recipes.planning.simulation import START_S, simulate
from turnsmith.recipes.planning.workload import EpisodeSize, TurnSize, assume_workload
from turnsmith.training.shape import ModelShape

ROOT = Path(__file__).parents[3]
DEMO = Path(__file__).parent / "demo_iterations.json"
"""Sizes and seconds of six iterations of a demo run on two cores, with a trainer of two ranks."""
CORES = Hardware("cpu", 0.1 * TERA, 10 * GIGA, 0.0, GIGA, "fixed for tests")
QWEN_72B = {
    "model_type": "qwen2", "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064, "tie_word_embeddings": False,
}  # fmt: skip


def read_demo():
    def read(prompt, grade_s, *turns):
        return EpisodeSize(prompt, tuple(TurnSize(*turn) for turn in turns), grade_s)

    return [
        MeasuredIteration(**{**each, "episodes": tuple(read(*episode) for episode in each["episodes"])})
        for each in json.loads(DEMO.read_text())
    ]


@pytest.fixture
def laptop():
    return load(ROOT / "configs/laptop.toml", [], RunConfig)


@pytest.fixture
def paper(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(QWEN_72B))
    return load(ROOT / "configs/paper-72b-stage2.toml", ["--model.path", str(tmp_path)], RunConfig)


def test_a_calibrated_plan_predicts_the_demos_iterations_within_a_quarter(laptop):
    errors = find_errors(read_demo(), laptop, Premises(CORES, num_cores=2))
    assert {name: abs(error) < 0.25 for name, error in errors.items()} == dict.fromkeys(
        ("collect", "train", "iteration"), True
    )


def run(episodes, speed=lambda num: 10.0, concurrency=10**6, num_cores=10**6, num_graders=10**6):
    return simulate(episodes, speed, concurrency=concurrency, num_cores=num_cores, num_graders=num_graders)


def test_one_episode_takes_the_sum_of_its_steps():
    episode = EpisodeSize(0, (TurnSize(20, 0, 1.5), TurnSize(10, 0, 0.5)), 4.0)
    made = run([episode])
    assert made.seconds == pytest.approx(START_S + 20 / 10 + 1.5 + 10 / 10 + 0.5 + 4.0)
    assert made.command_s == pytest.approx(START_S + 1.5 + 0.5 + 4.0)


def test_slots_cores_and_graders_are_limits():
    episodes = [EpisodeSize(0, (TurnSize(10, 0, 1.0),), 1.0)] * 8
    free = run(episodes).seconds
    assert run(episodes, concurrency=1).seconds == pytest.approx(8 * (free - 1.0) + 1.0)
    assert run(episodes, num_graders=1).seconds == pytest.approx(free + 7.0)
    assert run(episodes, num_cores=1).mean_cores <= 1.0
    assert run(episodes, num_cores=1).seconds >= 16.0


EPISODES = st.lists(
    st.builds(
        EpisodeSize,
        st.integers(0, 500),
        st.lists(st.builds(TurnSize, st.integers(1, 50), st.integers(0, 50), st.floats(0, 2)), max_size=4).map(tuple),
        st.floats(0, 5),
    ),
    min_size=1,
    max_size=12,
)


@given(EPISODES, st.integers(1, 12), st.integers(1, 4))
@settings(max_examples=60)
def test_more_cores_never_take_longer_and_no_step_is_lost(episodes, concurrency, num_cores):
    one, two = (run(episodes, concurrency=concurrency, num_cores=num, num_graders=12) for num in (num_cores, 10**6))
    assert two.seconds <= one.seconds * (1 + 1e-6)
    work = sum(START_S + each.grade_s + sum(turn.act_s for turn in each.turns) for each in episodes)
    assert two.command_s == pytest.approx(work, rel=1e-6)
    assert one.seconds * num_cores >= work * (1 - 1e-6)


def test_operations_are_those_of_the_formula():
    shape = ModelShape(2, 8, 16, 10, 2, 1, 4, False, False, 100, 10, 2 * 110 + 2 * 80 + 8)
    assert count_flops(shape, 30, 10) == 6 * 30 * (shape.num_parameters - 80 + 2 * 8 * 10)


def test_the_papers_run_fits_and_is_planned_by_stage(paper):
    plan = plan_run(paper, Premises(TABLE["h200"], num_cores=1536, price=2.0))
    assert [stage.name for stage in plan.stages] == ["stage1", "stage2"]
    assert plan.num_processors == 128 and plan.cost == pytest.approx(256 * plan.hours)
    assert all(stage.num_fitting > 0 and stage.train_s > 0 for stage in plan.stages)
    assert name_bottleneck(plan).startswith("stage")


def test_a_run_that_does_not_fit_is_refused_with_the_arithmetic(paper):
    with pytest.raises(UsageError, match=r"a rank needs .* GiB and 4090 has .* \(weights .* \+ .*\): use more ranks"):
        plan_run(paper, Premises(TABLE["4090"], num_cores=100))


def test_unknown_hardware_and_runs_without_training_are_refused(laptop):
    with pytest.raises(UsageError, match="choose h100"):
        find_hardware("abacus")
    with pytest.raises(UsageError, match="no RL stage"):
        plan_run(laptop.model_copy(update={"stages": []}), Premises(CORES, 2))


@pytest.mark.parametrize(("max_turns", "max_context"), [(1, 100), (40, 65_536), (80, 131_072)])
def test_assumed_episodes_keep_the_limits(max_turns, max_context):
    for episode in assume_workload(max_turns, max_context).episodes:
        assert len(episode.turns) <= max_turns and episode.num_tokens <= max_context


def test_the_command_prints_a_plan_and_json(turnsmith):
    printed = turnsmith("plan", ROOT / "configs/laptop.toml", "--hardware", "h100")
    assert printed.exit_code == 0 and "bottleneck: " in printed.stdout
    data = json.loads(turnsmith("plan", ROOT / "configs/laptop.toml", "--hardware", "h100", "--json").stdout)
    assert data["hours"] > 0 and {stage["name"] for stage in data["stages"]} == {"stage1", "stage2"}


@pytest.mark.parametrize("option", [("--hardware", "abacus"), ("--from", "/nonexistent")])
def test_bad_options_get_one_sentence(turnsmith, option):
    refused = turnsmith("plan", ROOT / "configs/laptop.toml", *option)
    assert refused.exit_code == 2 and refused.stderr.count("\n") <= 3 and option[0] in refused.stderr


@pytest.mark.parametrize(
    "settings",
    ["", "--engine.kv_memory_gb 20 --rollouts.concurrency 20000", "--trainer.kind fsdp --trainer.num_ranks 2"],
)
def test_the_parts_of_a_peak_add_up(settings):
    memory = plan_hardware(load(ROOT / "configs/laptop.toml", settings.split(), RunConfig))
    assert sum(size for _, size in list_peak(memory)) == pytest.approx(memory.peak)
    small = Hardware("small", TERA, GIGA, memory.peak - 1, GIGA, "fixed for tests")
    with pytest.raises(UsageError, match="a rank needs") as caught:
        refuse_too_large(memory, small)
    assert ("kv_memory_gb" in str(caught.value)) == bool(memory.cache)
