import asyncio
import itertools
import random
import re
import sys
from dataclasses import replace

from pytest import mark, raises

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.grading.grading import Grader
from turnsmith.sandboxes import make_provider
from turnsmith.synthesis.practice.functions import HELDOUT_KINDS, SHAPES, TRAIN_KINDS
from turnsmith.synthesis.practice.making import PracticeSpec, draw_bugs, draw_repositories, make_practice_tasks
from turnsmith.synthesis.practice.repository import NOUNS, invent_word, is_name, load_function, make_repository
from turnsmith.tasks.dataset import find_task_file, layer_paths, load_tasks
from turnsmith.types import Outcome, TaskTree


def draw(split, num, seed=0, difficulty=0.2):
    return list(itertools.islice(draw_repositories(PracticeSpec(split, num, difficulty, seed)), num))


def functions_of(repositories):
    return {
        function.source for repository in repositories for module in repository.modules for function in module.functions
    }


def test_held_out_and_training_splits_share_no_function():
    assert not functions_of(draw("heldout", 60)) & functions_of([*draw("train", 60), *draw("base", 60)])


def skeleton(function):
    """Return the shape of a function: its source without names, numbers and operators."""
    names = {}
    body = function.source.partition('."""\n')[2]
    words = [names.setdefault(w, f"v{len(names)}") if w not in SYNTAX else w for w in re.findall(r"\w+|[^\w\s]+", body)]
    return " ".join("0" if word.isdigit() else word for word in words)


SYNTAX = {"if", "else", "for", "in", "return", "each"}


def test_held_out_kinds_share_no_shape_with_other_kinds():
    def skeletons(repositories, kinds):
        modules = [module for repository in repositories for module in repository.modules if module.name in kinds]
        return {skeleton(function) for module in modules for function in module.functions}

    for difficulty in (0.0, 0.3, 1.0):
        trained = skeletons([*draw("train", 80, 0, difficulty), *draw("base", 80, 0, difficulty)], TRAIN_KINDS)
        held_out = skeletons(draw("heldout", 80, 0, difficulty), HELDOUT_KINDS)
        assert len(held_out) > 3 and not trained & held_out


def test_every_second_held_out_repository_uses_held_out_kinds_only():
    for index, repository in enumerate(draw("heldout", 30)):
        kinds = {module.name for module in repository.modules}
        assert kinds <= set(HELDOUT_KINDS if index % 2 == 0 else TRAIN_KINDS)


def test_invented_words_are_no_nouns_or_standard_modules():
    rng, nouns = random.Random(1), {noun for kind in SHAPES for noun in NOUNS[kind].split()}
    assert not (nouns | sys.stdlib_module_names) & {invent_word(rng) for _ in range(40_000)}


def test_repositories_of_one_split_have_distinct_names():
    names = [repository.name for repository in draw("train", 300)]
    assert len(names) == len(set(names))


def test_held_out_kinds_appear_only_in_the_held_out_split():
    def kinds(split):
        return {module.name for repository in draw(split, 60) for module in repository.modules}

    assert kinds("train") == kinds("base") == set(TRAIN_KINDS)
    assert kinds("heldout") == set(SHAPES)
    assert len(HELDOUT_KINDS) == 2


def test_held_out_kinds_share_no_nouns():
    trained = {noun for kind in TRAIN_KINDS for noun in NOUNS[kind].split()}
    assert not trained & {noun for kind in HELDOUT_KINDS for noun in NOUNS[kind].split()}


def test_repositories_are_a_function_of_the_seed():
    assert make_repository(TRAIN_KINDS, 0.3, "a").files == make_repository(TRAIN_KINDS, 0.3, "a").files
    assert make_repository(TRAIN_KINDS, 0.3, "a").files != make_repository(TRAIN_KINDS, 0.3, "b").files


def test_difficulty_adds_modules_and_rules_and_drops_messages():
    def size(difficulty):
        repositories = [make_repository(TRAIN_KINDS, difficulty, str(seed)) for seed in range(30)]
        modules = [module for repository in repositories for module in repository.modules]
        rules = [len(function.rules) for module in modules for function in module.functions]
        messages = sum(text.count("== expected, ") for repository in repositories for text in repository.files.values())
        return len(modules), sum(rules) / len(rules), messages / len(rules)

    easy, hard = size(0.0), size(1.0)
    assert easy[0] < hard[0] and easy[1] < hard[1]
    assert easy[2] == 1.0 and hard[2] == 0.0


def test_docstrings_describe_every_rule():
    for repository in draw("train", 10):
        for module in repository.modules:
            for function in module.functions:
                docstring = re.search(r'"""Here (.*)\."""', function.source)[1]
                assert docstring.split("; ") == [rule.english for rule in function.rules]
                load_function(function)


def test_each_function_gets_one_bug():
    for repository in draw("train", 5):
        bugs = list(draw_bugs(repository))
        assert len(bugs) == sum(len(module.functions) for module in repository.modules)
        assert all(mutation.apply() != repository.files[path] for path, mutation in bugs)


@mark.slow
async def test_only_gold_patches_resolve_practice_tasks(tmp_path):
    provider = make_provider(SandboxConfig())
    try:
        made = await make_practice_tasks(PracticeSpec("train", 4, 0.2, 3), tmp_path / "set", provider)
        grader = Grader(provider, tests_timeout_s=30, num_workers=2)
        assert load_tasks(tmp_path / "set") == made and len(made) == 4
        for task in made:
            tree = TaskTree(task, layer_paths(task, find_task_file(tmp_path / "set")))
            assert (await grader.grade(tree, task.patch)).outcome is Outcome.RESOLVED
            assert (await grader.grade_unpatched(tree)).outcome is Outcome.UNRESOLVED
    finally:
        await provider.close()


class ForgetfulProvider:
    """Provider that starts every sandbox with an empty tree."""

    def __init__(self, provider, empty):
        self.provider, self.empty = provider, empty

    async def start(self, spec):
        return await self.provider.start(replace(spec, layers=(self.empty,)))


async def test_a_sandbox_that_runs_no_suite_is_reported(provider, tmp_path):
    (tmp_path / "empty").mkdir()
    forgetful = ForgetfulProvider(provider, tmp_path / "empty")
    with raises(UsageError, match=r"practice repository .* raise the sandbox's limits"):
        async with asyncio.timeout(60):
            await make_practice_tasks(PracticeSpec("train", 1, 0.0, 0), tmp_path / "set", forgetful)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


async def test_too_many_practice_tasks_are_refused(provider, tmp_path):
    with raises(UsageError, match="5000 per set: make several"):
        await make_practice_tasks(PracticeSpec("train", 5_001, 0.0, 0), tmp_path / "set", provider)


@mark.parametrize("word", ["for", "clas", "each", "sum"])
def test_keywords_and_plurals_that_are_keywords_are_refused(word):
    assert not is_name(word)


def test_invented_words_are_valid_names():
    rng = random.Random(0)
    assert all(is_name(invent_word(rng)) for _ in range(10_000))
