import ast
import importlib
import inspect
import json
import re
from itertools import pairwise
from pathlib import Path
from pkgutil import iter_modules

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith import config
from turnsmith.config import ImitationConfig, RunConfig, Section
from turnsmith.config.files import MOVED_KEYS, REMOVED_KEYS, load, pair_overrides, parse_value, set_key, validate
from turnsmith.errors import UsageError
from turnsmith.types import SamplingParams

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))
PAPER_STAGE_1, PAPER_WHOLE = (path for path in CONFIGS if path.stem.startswith("paper"))
CONFIG_FOLDER = Path(config.__file__).parent
MODULES = [importlib.import_module(f"turnsmith.config.{module.name}") for module in iter_modules([str(CONFIG_FOLDER)])]
SECTIONS = [
    *(kind for module in MODULES for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__
      and isinstance(kind, type) and issubclass(kind, Section) and kind is not Section),
    SamplingParams,
]  # fmt: skip
"""All sections of the package, and the sampling parameters of evaluations."""
MINIMAL = "[train_tasks]\npractice_tasks = 4\n"


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "run.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_a_resolved_configuration_reads_back_unchanged(path):
    config = load(path, [], RunConfig)
    assert validate(json.loads(config.model_dump_json()), path, RunConfig) == config


def test_the_paper_configuration_has_the_numbers_of_table_3():
    stage1, stage2 = load(PAPER_WHOLE, [], RunConfig).stages
    assert [stage1.max_context, stage2.max_context] == [65_536, 131_072]
    assert [stage1.tasks_per_iteration, stage2.tasks_per_iteration] == [300, 100]
    assert [stage1.batch_size, stage2.batch_size] == [128, 256]
    assert [stage1.max_turns, stage2.max_turns] == [40, 80]
    assert [(s.clip_eps_low, s.clip_eps_high) for s in (stage1, stage2)] == [(0.2, 0.3), (0.2, 0.26)]
    assert {s.length_threshold for s in (stage1, stage2)} == {s.group_size for s in (stage1, stage2)} == {10}
    optimizer = stage1.optimizer
    assert (optimizer.learning_rate, optimizer.beta1, optimizer.beta2) == (1e-6, 0.9, 0.999)
    assert (optimizer.weight_decay, optimizer.grad_clip) == (0.1, 1.0)


def test_the_stage_1_file_equals_the_first_half_of_the_whole_recipe():
    first, second = (load(path, [], RunConfig) for path in (PAPER_STAGE_1, PAPER_WHOLE))
    assert first.rft == second.rft
    assert first.stages == second.stages[:1]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_key_has_a_description(section):
    [body] = ast.parse(inspect.getsource(section)).body
    fields = [(field, after) for field, after in pairwise(body.body) if isinstance(field, ast.AnnAssign)]
    assert {field.target.id for field, _ in fields} == section.__annotations__.keys()
    for field, after in fields:
        assert isinstance(after, ast.Expr) and after.value.value.rstrip().endswith("."), ast.unparse(field)


def test_every_key_is_read_somewhere():
    root = [path for path in CONFIG_FOLDER.parent.rglob("*.py") if path.parent != CONFIG_FOLDER]
    readers = "".join(path.read_text() for path in root)
    keys = {key for section in SECTIONS for key in section.model_fields}
    assert {"temperature", "top_p", "max_turns"} <= keys
    assert [key for key in sorted(keys) if not re.search(rf"\.{key}\b", readers)] == []


def test_there_are_at_most_156_keys():
    counted = [section for section in SECTIONS if section not in (SamplingParams, ImitationConfig)]
    assert sum(len(section.model_fields) for section in counted) <= 156


def make_old_config(**values):
    """Return a configuration as an older version stored it, with removed and moved keys; `values` replace defaults."""
    defaults = {key: default for key, (default, _) in REMOVED_KEYS.items()}
    defaults |= {key: default for key, (_, default) in MOVED_KEYS.items()}
    openai = {"address": "http://localhost/v1", "model": "m"}
    data = RunConfig(train_tasks={"practice_tasks": 4}, engine={"openai": openai}, rft={}, stages=[{}]).model_dump()
    for key, default in defaults.items():
        set_key(data, key.replace("*", "0"), None)
        set_key(data, key.replace("*", "0"), values.get(key, default))
    return data


def test_a_stored_configuration_with_all_old_keys_at_their_defaults_is_read_silently():
    data = make_old_config()
    assert data["runs"] and data["stages"][0]["advantage_std"]
    assert validate(data, Path("config.json"), RunConfig).keep_checkpoints == 2


@pytest.mark.parametrize("key", REMOVED_KEYS)
def test_a_removed_key_is_dropped_with_a_warning(key):
    with pytest.warns(FutureWarning, match=rf"{re.escape(key)} is deprecated: .*: remove the key"):
        validate(make_old_config(**{key: 7}), Path("run.toml"), RunConfig)


def test_the_old_default_of_beta_is_dropped_with_a_warning_for_grpo_only(write):
    stages = '[[stages]]\nalgorithm = "{}"\nalgorithm_options = {{ beta = 0.0 }}\n'
    with pytest.warns(FutureWarning, match=r"algorithm_options\.beta is deprecated: .*: remove the key"):
        assert load(write(MINIMAL + stages.format("grpo")), [], RunConfig).stages[0].algorithm_options == {}
    own = load(write(MINIMAL + stages.format("my_algorithm:MINE")), [], RunConfig)
    assert own.stages[0].algorithm_options == {"beta": 0.0}


def test_a_moved_key_is_renamed_with_a_warning(write):
    with pytest.warns(FutureWarning, match=r"runs\.keep_checkpoints is deprecated: rename it to keep_checkpoints"):
        assert load(write(MINIMAL + "[runs]\nkeep_checkpoints = 0\n"), [], RunConfig).keep_checkpoints == 0


@pytest.mark.parametrize(("old", "new"), [("true", "full"), ("false", "none")])
def test_activation_checkpointing_accepts_its_old_values(write, old, new, recwarn):
    path = write(MINIMAL + f"[trainer]\nactivation_checkpointing = {old}\n")
    assert load(path, [], RunConfig).trainer.activation_checkpointing == new
    told = [str(warning.message) for warning in recwarn]
    assert told == [f'{path}: trainer.activation_checkpointing = true is deprecated: write "full"'] * (old == "true")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("sed = 3\n" + MINIMAL, ["'sed'", "did you mean 'seed'"]),
        (MINIMAL + "[rft.optimizer]\nlearning_rat = 1\n", ["rft.optimizer.learning_rat", "'learning_rate'"]),
        (MINIMAL + "[rft]\nbatch-size = 8\n", ["rft.batch-size", "did you mean 'batch_size'"]),
        (MINIMAL + '[rft]\nconversatons = "x"\n', ["rft.conversatons", "did you mean 'conversations'"]),
        (MINIMAL + "[[stages]]\nbatch_sise = 1\n", ["stages.0.batch_sise", "'batch_size'"]),
        (MINIMAL + "zzzzzz = 1\n", ["zzzzzz", "remove it"]),
        (MINIMAL + "[rft]\ngroup_size = 4\n", ["'rft.group_size', a key of another section: move it there"]),
        ("engine = 3\n" + MINIMAL, ["engine must hold a table of keys", "got 3"]),
        ("seed = 'x'\n" + MINIMAL, ["seed", "integer", '"x"']),
        (MINIMAL + "[eval]\nnum_runs = 2\nk = 3\n", ["eval", "k 3 must be at most num_runs 2"]),
        (MINIMAL + "[[stages]]\nlength_threshold = 41\n", ["stages.0", "at most max_turns 40"]),
        (MINIMAL + "[sandbox]\nmin_isolation = 'some'\n", ["sandbox.min_isolation", "'container-root'"]),
        (MINIMAL + "[model]\nthreads = -1\n", ["model.threads", "greater than or equal to 0"]),
        (MINIMAL + "[rft.optimizer]\nbeta1 = 1.0\n", ["rft.optimizer.beta1", "less than 1"]),
        (MINIMAL + "[logprob_gap]\nstop = -1.0\n", ["logprob_gap.stop", "greater than 0"]),
        ("[train_tasks]\n", ["train_tasks", "exactly one of path, practice_tasks, package"]),
        ("seed = \n", ["not valid TOML"]),
        ("seed = " + "[" * 100_000, ["not valid TOML"]),
        ("seed = " + "9" * 5_000, ["not valid TOML"]),
    ],
)
def test_bad_input_names_file_and_key_in_one_sentence(write, text, pieces):
    path = write(text)
    with pytest.raises(UsageError) as caught:
        load(path, [], RunConfig)
    assert all(piece in str(caught.value) for piece in [str(path), *pieces]), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stored_configuration_that_is_a_list_is_refused_in_plain_words():
    with pytest.raises(UsageError, match=r"config.json: the file must hold a table of keys \(got \[\]\)$"):
        validate([], Path("config.json"), RunConfig)


def test_an_error_names_an_override_only_if_the_override_causes_it(write):
    path = write("sed = 3\n" + MINIMAL)
    for arguments, place in {(): path, ("--seed", "7"): path, ("--sed", "7"): f"{path} with --sed"}.items():
        with pytest.raises(UsageError, match=rf"{re.escape(str(place))}: .*'sed'"):
            load(path, list(arguments), RunConfig)
    for key, value in {"--eval": '{"num_runs": 2, "k": 99}', "--eval.k": "99"}.items():
        with pytest.raises(UsageError, match=f"{key}: eval: k 99"):
            load(write(MINIMAL), [key, value], RunConfig)


def test_the_source_of_a_task_set_can_be_replaced(write):
    arguments = ["--train_tasks.practice_tasks", "0", "--train_tasks.path", "tasks", "--train_tasks.package", "null"]
    config = load(write(MINIMAL), arguments, RunConfig)
    assert config.train_tasks and config.train_tasks.path == "tasks"


def test_an_evaluation_set_can_be_removed(write):
    path = write(MINIMAL + "[eval_tasks.a]\npath = 'a'\n[eval_tasks.b]\npath = 'b'\n")
    assert list(load(path, ["--eval_tasks.a", "null"], RunConfig).eval_tasks) == ["b"]
    with pytest.raises(UsageError, match=r"eval_tasks\.c: .*null"):
        load(path, ["--eval_tasks.c", "null"], RunConfig)


def test_a_device_file_is_refused():
    with pytest.raises(UsageError, match="/dev/zero"):
        load(Path("/dev/zero"), [], RunConfig)


@pytest.mark.parametrize("position", ["1", "2", "-1", "x"])
def test_a_position_outside_a_list_is_refused(write, position):
    with pytest.raises(UsageError, match="position"):
        load(write(MINIMAL + "[[stages]]\n"), [f"--stages.{position}", "{}"], RunConfig)


def test_a_list_takes_a_value_at_its_position(write):
    path = write(MINIMAL + "[[stages]]\nname = 'a'\n[[stages]]\nname = 'b'\n")
    config = load(path, ["--stages.1", '{"name": "c"}'], RunConfig)
    assert [stage.name for stage in config.stages] == ["a", "c"]


def test_errors_distinguish_a_missing_file_from_a_folder(tmp_path):
    with pytest.raises(UsageError, match=r"/none.toml .*No such file or directory.*TOML"):
        load(tmp_path / "none.toml", [], RunConfig)
    with pytest.raises(UsageError, match=r"regular file.* TOML"):
        load(tmp_path, [], RunConfig)


def test_overrides_reach_any_depth_and_lists(write):
    path = write(MINIMAL + "[[stages]]\n[[stages]]\nname = 'stage2'\n")
    arguments = [
        "--seed",
        "7",
        "--stages.1.iterations=3",
        "--rft.optimizer.learning_rate",
        "3e-4",
        "--stages.0.permute_rewards=true",
    ]
    config = load(path, arguments, RunConfig)
    assert config.seed == 7
    assert [stage.iterations for stage in config.stages] == [50, 3]
    assert config.stages[0].permute_rewards
    assert config.rft and config.rft.optimizer.learning_rate == 3e-4


def test_the_model_dtype_can_be_bfloat16(write):
    assert load(write(MINIMAL + "[rft]\n"), ["--model.dtype=bfloat16"], RunConfig).model.dtype == "bfloat16"
    assert load(PAPER_WHOLE, [], RunConfig).model.dtype == "bfloat16"


@pytest.mark.parametrize("text", [MINIMAL + "[rft]\n", MINIMAL + "[rft.optimizer]\ngrad_clip = 0.5\n"])
def test_an_rft_optimizer_with_one_key_keeps_the_papers_other_values(write, text):
    optimizer = load(write(text), [], RunConfig).rft.optimizer
    assert (optimizer.learning_rate, optimizer.warmup_steps) == (5e-6, 10)
    assert optimizer.weight_decay == 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["seed", "3"], "unexpected argument 'seed'"),
        (["--seed"], "--seed"),
        (["--seed.x", "3"], "seed.x"),
        (["--stages.2.iterations", "3"], "'2'.* 1"),
        (["--stages.first.iterations", "3"], "'first'"),
        (["--tracking", "wandb"], r'tracking: .*\["wandb"\]'),
        (["--agent.tools", "search_file"], r'agent.tools: .*\["search_file"\]'),
    ],
)
def test_overrides_of_unknown_keys_are_refused(write, arguments, message):
    path = write("seed = 1\n" + MINIMAL + "[[stages]]\n")
    with pytest.raises(UsageError, match=message):
        load(path, arguments, RunConfig)


def test_the_flag_sandbox_sets_the_sandbox_kind(write):
    assert pair_overrides(["--sandbox", "subprocess"]) == [("sandbox.kind", "subprocess")]
    assert load(write(MINIMAL), ["--sandbox", "subprocess"], RunConfig).sandbox.kind == "subprocess"


@pytest.mark.parametrize(
    "text, message",
    [
        ("[[stages]]\n[[stages]]\n", "two stages .*'stage1'"),
        ('[[stages]]\nname = "rft"\n', "two stages .*'rft'"),
        ('[[stages]]\nname = "../x"\n', "'../x'"),
        ('[eval_tasks.train]\npath = "x"\n', "training tasks"),
        ('[eval_tasks."a/b"]\npath = "x"\n', "'a/b'"),
        ("[[stages]]\ncurriculum = true\n", "solve rates"),
    ],
)
def test_colliding_names_and_settings_without_effect_are_refused(write, text, message):
    with pytest.raises(UsageError, match=message):
        load(write(MINIMAL + text), [], RunConfig)


@pytest.mark.parametrize(
    "text, message",
    [
        ('[train_tasks]\npractice_tasks = 4\nsplit = "heldout"\n', "evaluation"),
        ("[train_tasks]\npractice_tasks = 4\n[eval_tasks.x]\npractice_tasks = 2\n", "has the tasks of train_tasks"),
    ],
)
def test_training_and_held_out_splits_cannot_be_exchanged(write, text, message):
    with pytest.raises(UsageError, match=message):
        load(write(text), [], RunConfig)


@given(st.recursive(st.integers() | st.booleans() | st.none() | st.text(), st.lists, max_leaves=5))
def test_values_are_read_as_json_and_anything_else_is_text(value):
    assert parse_value(json.dumps(value)) == value
    assert parse_value(f"name=={value}") == f"name=={value}"


@pytest.mark.parametrize("value", ["9" * 5_000, "[" * 100_000])
def test_values_too_large_for_json_are_text(value):
    assert parse_value(value) == value


names = st.text("abc", min_size=1, max_size=3)


@given(st.lists(st.tuples(st.lists(names, min_size=1, max_size=4), st.integers())))
def test_set_key_equals_nested_assignment(pairs):
    """Compare with a flat dictionary of dotted keys; a value in place of a section is an error."""
    data, flat = {}, {}
    for path, value in pairs:
        dotted = ".".join(path)
        if any(dotted.startswith(f"{key}.") for key in flat):
            with pytest.raises(UsageError):
                set_key(data, dotted, value)
            continue
        set_key(data, dotted, value)
        flat = {key: old for key, old in flat.items() if not key.startswith(f"{dotted}.")} | {dotted: value}
    for dotted, value in flat.items():
        node = data
        for name in dotted.split("."):
            node = node[name]
        assert node == value


def test_training_requires_training_tasks_and_evaluation_does_not(write):
    assert load(write('[eval_tasks.x]\npath = "x"\n'), [], RunConfig).task_sets.keys() == {"x"}
    with pytest.raises(UsageError, match="train_tasks is missing"):
        load(write("[[stages]]\n"), [], RunConfig)
