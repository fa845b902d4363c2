from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.models.chat_families import AS_SHIPPED, FAMILIES, KEEP, make_family_tokenizer, make_renderer
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.errors import UsageError

THINKING = [name for name, family in FAMILIES.items() if family.thinks]
APPENDING = [name for name in FAMILIES if name not in THINKING]
SPELLED = sorted({token for family in FAMILIES.values() for token in family.special})
RENDERERS = {name: make_renderer(name) for name in FAMILIES}
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Co"]) | st.sampled_from(" \n\t▁"), max_size=40)
HOSTILE = st.lists(st.sampled_from(SPELLED) | TEXTS, max_size=4).map(lambda parts: "".join(parts).strip()).filter(bool)
# Replies have no outer white space, which a rendering would trim or merge with the prompt, unlike sampled tokens.
REPLIES = TEXTS.map(str.strip).filter(bool)
find_tokenizer = cache(make_family_tokenizer)
few_examples = settings(max_examples=40, deadline=None, derandomize=True)


def list_messages(name, system, user, turns):
    folds = FAMILIES[name].chat.system_prompt == "first-user-message"
    texts = [f"{system}\n\n{user}" if folds else user, *(text for turn in turns for text in turn)]
    said = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
    return said if folds else [{"role": "system", "content": system}, *said]


def render(tokenizer, messages, prompted=True):
    return tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=prompted, date_string="26 Jul 2024"
    )


def grow(renderer, system, user, turns):
    token_ids = renderer.prompt_ids(system, user)
    for reply, observation in turns:
        token_ids += renderer.reply_ids(reply)
        token_ids += renderer.observation_ids(observation, after=token_ids[-1])
    return token_ids


def whole_of_others_spelled(name, system, user, turns):
    """Render slowly with renamed special tokens and placeholders, so that contents cannot form special tokens."""
    plain = find_tokenizer(name)
    texts = [system, user, *(text for turn in turns for text in turn)]
    places = [chr(0xE100 + index) for index in range(len(texts))]
    pairs = list(zip(places[2::2], places[3::2], strict=True))
    rendering = render(plain, list_messages(name, *places[:2], pairs))
    renamed = find_tokenizer(name, rename)
    for token in sorted(FAMILIES[name].special, key=len, reverse=True):
        rendering = rendering.replace(token, rename(token))
    for place, text in zip(places, texts, strict=True):
        rendering = rendering.replace(place, text)
    return renamed.encode(rendering, add_special_tokens=False)


def rename(token):
    return f"\ue000{token.encode().hex()}\ue001"


@pytest.mark.parametrize("name", APPENDING)
@few_examples
@given(TEXTS, TEXTS, st.lists(st.tuples(REPLIES, TEXTS), max_size=3))
def test_incremental_rendering_equals_rendering_at_once(name, system, user, turns):
    tokenizer = find_tokenizer(name)
    whole = tokenizer.encode(render(tokenizer, list_messages(name, system, user, turns)), add_special_tokens=False)
    assert grow(RENDERERS[name], system, user, turns) == whole


@pytest.mark.parametrize("name", APPENDING)
@few_examples
@given(HOSTILE, HOSTILE, st.lists(st.tuples(HOSTILE, HOSTILE), max_size=2))
def test_special_tokens_in_contents_stay_text(name, system, user, turns):
    assert grow(RENDERERS[name], system, user, turns) == whole_of_others_spelled(name, system, user, turns)


@pytest.mark.parametrize("name", THINKING)
@few_examples
@given(TEXTS, TEXTS, st.lists(st.tuples(REPLIES, REPLIES, TEXTS), max_size=3))
def test_kept_turns_look_like_the_templates_last_turn(name, system, user, said):
    tokenizer, questions = find_tokenizer(name), [user, *(observation for *_, observation in said)]
    turns = [(think(name, thought, reply), observation) for thought, reply, observation in said]
    exchanges = [
        [{"role": "user", "content": question}, {"role": "assistant", "content": reply}]
        for question, (reply, _) in zip(questions, turns, strict=False)
    ]
    first, *later = [*exchanges, [{"role": "user", "content": questions[-1]}]]
    parts = [render(tokenizer, [{"role": "system", "content": system}, *first], prompted=not later)]
    parts += [render(tokenizer, one, prompted=one is later[-1]).removeprefix("[gMASK]<sop>") for one in later]
    assert grow(RENDERERS[name], system, user, turns) == tokenizer.encode("".join(parts), add_special_tokens=False)


def think(name, thought, reply):
    """Return a sampled turn in the template's form."""
    thought, reply = (text.replace("</think>", "").strip() for text in (thought, reply))
    return {"qwen3": f"<think>\n{thought}\n</think>\n\n{reply}", "glm-4.5": f"\n<think>{thought}</think>\n{reply}"}[
        name
    ]


@pytest.mark.parametrize("name", THINKING)
def test_error_for_a_template_that_drops_reasoning_names_keep_turns(name):
    with pytest.raises(UsageError, match=r"not append-only .* use --model.chat.template keep-turns$"):
        make_renderer(name, AS_SHIPPED)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gemma-2", "System role not supported"),
        ("mistral-v0.2", "roles must alternate"),
        ("mistral-v0.3", "append-only"),
    ],
)
def test_error_for_template_without_system_role_names_system_prompt_key(name, reason):
    remedy = r"use --model.chat.system_prompt first-user-message$"
    for chat in (AS_SHIPPED, KEEP):
        with pytest.raises(UsageError, match=remedy):
            make_renderer(name, chat)
    with pytest.raises(UsageError, match=reason):
        make_renderer(name, AS_SHIPPED)


@pytest.mark.parametrize("name", APPENDING)
def test_keep_turns_changes_nothing_for_append_only_templates(name):
    kept = make_renderer(name, FAMILIES[name].chat.model_copy(update={"template": "keep-turns"}))
    turns = [("a b", "c"), ("d", "")]
    assert grow(kept, "s", "u", turns) == grow(RENDERERS[name], "s", "u", turns)


@pytest.mark.parametrize("name", FAMILIES)
def test_beginning_of_sequence_occurs_once(name):
    family, renderer = FAMILIES[name], RENDERERS[name]
    token_ids = grow(renderer, "s", "u", [("a", "b"), ("c", "d")])
    begins = renderer.tokenizer.convert_tokens_to_ids(family.bos or family.special[0])
    assert token_ids.count(begins) == (1 if family.bos else 0)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_stop_token_is_hidden_and_followed_by_the_templates_end_of_turn(name):
    family, renderer = FAMILIES[name], RENDERERS[name]
    stops = renderer.tokenizer.convert_tokens_to_ids([family.end_of_turn, *family.stops])
    assert renderer.stop_token_ids == set(stops)
    assert renderer.end_of_turn_id == stops[0]
    said = renderer.reply_ids("ls -l")[:-1]
    texts = {renderer.turn_text([*said, stop]).strip() for stop in stops} | {renderer.turn_text(said).strip()}
    assert texts == {"ls -l"}
    ended = renderer.observation_ids("ok", after=stops[0])
    for last in (*stops[1:], said[-1]):  # another stop token, or a turn cut by length
        assert renderer.observation_ids("ok", after=last) == [stops[0], *ended]


@pytest.mark.parametrize("name", FAMILIES)
def test_sampled_special_tokens_stay_visible_inside_a_turn(name):
    renderer, token = RENDERERS[name], FAMILIES[name].special[1]
    inside = renderer.tokenizer.convert_tokens_to_ids(token)
    text = renderer.turn_text([*renderer.content_ids("a"), inside, *renderer.reply_ids("b")])
    assert token in text


@pytest.mark.parametrize("name", FAMILIES)
def test_rendering_cost_of_a_turn_is_independent_of_earlier_turns(name, monkeypatch):
    renderer, costs = make_renderer(name), []
    encode = renderer.tokenizer.encode

    def count(text, **options):
        costs[-1] += len(text)
        return encode(text, **options)

    monkeypatch.setattr(renderer.tokenizer, "encode", count)
    for _ in range(50):
        costs.append(0)
        renderer.observation_ids("x" * 1000, after=renderer.end_of_turn_id)
    assert len(set(costs)) == 1
    assert 1000 <= costs[0] < 1100


def test_template_date_is_the_same_on_every_day():
    renderer = make_renderer("llama-3.2", AS_SHIPPED)
    assert "Today Date: 26 Jul 2024\n" in renderer.tokenizer.decode(renderer.prompt_ids("s", "u"))


def test_pinning_the_date_keeps_the_template():
    tokenizer = make_family_tokenizer("qwen2.5")
    plain = ChatRenderer(tokenizer).prompt_ids("s", "u")
    tokenizer.chat_template = f"\n{{{{- '' if strftime_now is defined }}}}{tokenizer.chat_template}"
    assert ChatRenderer(tokenizer).prompt_ids("s", "u") == plain
    tokenizer.chat_template = f"\n{{{{ strftime_now('%Y-%m-%d') }}}}{tokenizer.chat_template}"
    assert (
        ChatRenderer(tokenizer)
        .tokenizer.decode(ChatRenderer(tokenizer).prompt_ids("s", "u"))
        .startswith("\n2024-07-26")
    )
