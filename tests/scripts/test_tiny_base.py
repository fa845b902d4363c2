import itertools
import json
import random
import re
from pathlib import Path

from pytest import fixture, mark
from transformers import Qwen2Config

from make_tiny_base import texts
from tiny_base.drill import draw_repeat
from tiny_base.lessons import DIFFICULTIES, draw_lessons
from tiny_base.reading import draw_turns
from tiny_base.rehearsal import play, rehearse
from tiny_base.teacher import CLEAN, HABITS, Teacher, spoil
from tiny_base.tokenizer import PHRASES, VOCABULARY_SIZE, save_tokenizer, train_tokenizer
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.tokenizers import load_tokenizer
from turnsmith.config import SandboxConfig
from turnsmith.sandboxes import make_provider
from turnsmith.synthesis.practice.functions import HELDOUT_KINDS, TRAIN_KINDS
from turnsmith.synthesis.practice.making import PracticeSpec, draw_repositories
from turnsmith.synthesis.practice.repository import NOUNS
from turnsmith.training.directories import find_model
from turnsmith.types import StopReason


@fixture(scope="module")
def tokenizer():
    prompts = load_scaffold(prompts="brief")
    return train_tokenizer([prompts.system(True), prompts.issue("One test fails:", "/testbed"), "def total(x):\n" * 9])


@mark.slow
async def test_the_teacher_without_faults_reverts_every_bug_with_the_real_tools(tmp_path, tokenizer):
    renderer, rng = ChatRenderer(tokenizer), random.Random(0)
    provider = make_provider(SandboxConfig())
    try:
        for lesson in draw_lessons(tmp_path, 24, seed=5):
            episode = await play(lesson, CLEAN, provider, renderer, rng)
            assert episode.stop_reason is StopReason.SUBMITTED
            added = [line[1:] for line in episode.patch.splitlines() if line.startswith("+") and line[:3] != "+++"]
            assert set(added) <= set(lesson.body)
            assert Path(lesson.path).name in episode.patch
    finally:
        await provider.close()


def test_a_teacher_with_faults_often_deviates_from_the_correct_plan(tmp_path):
    rng, good = random.Random(1), 0
    for lesson in draw_lessons(tmp_path, 60, seed=6):
        clean = Teacher(lesson, CLEAN, random.Random(0)).plan
        good += Teacher(lesson, HABITS, rng).plan[:4] == clean
    assert good < 40


def test_a_spoiled_fix_usually_differs_from_the_correct_one():
    rng = random.Random(2)
    spoiled = [spoil(["    total = count * price"], rng) for _ in range(50)]
    assert sum(lines != ["    total = count * price"] for lines in spoiled) > 35


def test_the_loss_of_a_drill_covers_only_symbols_determined_by_its_first_half():
    for seed in range(50):
        sample = draw_repeat(list(range(100)), 20, random.Random(seed))
        seen = sample.token_ids.tolist()
        for position in itertools.compress(range(len(seen)), sample.loss_mask):
            before = seen.index(seen[position - 1])
            assert seen[before + 1] == seen[position]


def test_the_tokenizer_encodes_any_text_and_has_one_token_per_phrase(tokenizer):
    text = "def f(ß):\n\treturn '→ 🎈'  # {}[]\r\n\x00"
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
    system = load_scaffold(prompts="brief").system()
    assert len(tokenizer.encode(system, add_special_tokens=False)) < 12
    assert all(len(tokenizer.encode(phrase, add_special_tokens=False)) == 1 for phrase in PHRASES)


def test_the_training_texts_of_the_tokenizer_contain_no_word_of_a_held_out_kind():
    nouns = {noun for kind in HELDOUT_KINDS for noun in (kind, *NOUNS[kind].split())}
    met = {word for text in itertools.islice(texts(1), 300) for word in re.findall("[a-z]+", text)}
    assert set(TRAIN_KINDS) <= met and not nouns & met


def test_a_line_of_code_has_the_same_tokens_in_a_window_in_quotes_and_in_a_heredoc(tokenizer):
    def pieces(text):
        return " ".join(map(str, ["", *tokenizer.encode(text, add_special_tokens=False), ""]))

    line = pieces("count = price * 3")
    assert line in pieces("14:    count = price * 3\n")
    assert line in pieces("replace 'count = price * 3' 'x'")
    assert line in pieces("edit 3:3 << 'EOF'\n    count = price * 3\nEOF")


def test_a_model_directory_keeps_the_splitting_rules_of_its_tokenizer_file(tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path)
    Qwen2Config().save_pretrained(tmp_path)
    text = "14:    total = count * price\n"
    assert load_tokenizer(tmp_path).tokenize(text) == tokenizer.tokenize(text)


def test_lessons_come_from_repositories_of_the_base_split(tmp_path):
    lessons = list(draw_lessons(tmp_path, 30, seed=4))
    first = next(draw_repositories(PracticeSpec("base", 0, DIFFICULTIES[0], 4_000_000)))
    assert lessons[0].task.repo == first.name
    assert {Path(lesson.path).stem for lesson in lessons} <= set(TRAIN_KINDS)
    laptop = PracticeSpec("heldout", 0, 0.2, 0)
    held_out = {
        text for r in itertools.islice(draw_repositories(laptop), 40) for text in r.files.values() if "def " in text
    }
    learned = {
        (lesson.folder / layer / lesson.path).read_text() for lesson in lessons for layer in lesson.task.layers[-1:]
    }
    assert learned and not learned & held_out


def test_the_shipped_base_has_the_tokenizer_of_the_script():
    shipped = load_tokenizer(find_model("tiny"))
    assert all(len(shipped.encode(phrase, add_special_tokens=False)) == 1 for phrase in PHRASES)
    rows = json.loads((find_model("tiny") / "config.json").read_text())["vocab_size"]
    assert len(shipped) <= rows == VOCABULARY_SIZE


def test_reading_samples_never_repeat_and_contain_no_held_out_kind():
    turns = list(itertools.islice(draw_turns(3), 60))
    assert len({seen for seen, _ in turns}) == 60
    nouns = {noun for kind in HELDOUT_KINDS for noun in (kind, *NOUNS[kind].split())}
    assert not any(nouns & set(re.findall("[a-z]+", seen)) for seen, _ in turns)


@mark.slow
async def test_rehearsals_are_the_same_for_the_same_seed(tmp_path, tokenizer):
    provider = make_provider(SandboxConfig())
    try:
        first, second = [
            await rehearse(draw_lessons(tmp_path / name, 6, 5), HABITS, provider, ChatRenderer(tokenizer), seed=2)
            for name in ("first", "second")
        ]
    finally:
        await provider.close()
    assert [sample.token_ids.tolist() for sample in first] == [sample.token_ids.tolist() for sample in second]
