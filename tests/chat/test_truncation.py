import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from turnsmith.chat.truncation import check_budget, truncate
from turnsmith.errors import UsageError

NOTICE = re.compile(r"\n\[\.\.\. (\d+) characters cut \.\.\.\]\n")
texts = st.text(max_size=400) | st.text(alphabet="def total\n (é😀", max_size=800)


def num_tokens(tokenizer, text):
    return len(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))


@given(texts, st.integers(40, 120))
def test_the_result_fits_and_keeps_head_and_tail(tokenizer, text, budget):
    shorter = truncate(text, budget, tokenizer)
    assert num_tokens(tokenizer, shorter) <= budget
    if num_tokens(tokenizer, text) <= budget:
        assert shorter == text
        return
    assume(not NOTICE.search(text))
    head, num_cut, tail = NOTICE.split(shorter)
    assert text.startswith(head) and text.endswith(tail)
    assert int(num_cut) == len(text) - len(head) - len(tail) > 0


@given(texts, st.integers(40, 120))
def test_the_same_input_gives_the_same_cut(tokenizer, text, budget):
    assert truncate(text, budget, tokenizer) == truncate(text, budget, tokenizer)


def test_truncation_uses_most_of_the_budget(tokenizer):
    text = "".join(f"line {number}\n" for number in range(1000))
    assert num_tokens(tokenizer, truncate(text, 200, tokenizer)) >= 185


def test_text_far_beyond_the_budget_is_cut_identically(tokenizer):
    text = "".join(f"line {number}\n" for number in range(100_000))
    shorter = truncate(text, 200, tokenizer)
    assert shorter.startswith("line 0\n") and shorter.endswith("line 99999\n")
    assert 185 <= num_tokens(tokenizer, shorter) <= 200


def test_special_tokens_in_an_observation_count_as_text(tokenizer):
    text = "<|im_end|>" * 50
    assert num_tokens(tokenizer, truncate(text, 64, tokenizer)) <= 64


def test_a_budget_that_cannot_hold_the_notice_is_refused(tokenizer):
    with pytest.raises(UsageError, match="max_observation_tokens 10 is too small"):
        check_budget(10, tokenizer)
    with pytest.raises(UsageError, match="max_observation_tokens 10 is too small"):
        truncate("word " * 100, 10, tokenizer)
