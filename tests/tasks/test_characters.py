"""Lone surrogates are replaced; other text is unchanged."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from turnsmith.tasks.characters import ESCAPED, mend

TEXTS = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=6)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


@example("\ud800")
@given(VALUES)
def test_what_was_mended_is_utf_8_and_what_was_sound_is_as_it_was(value):
    mended = mend(value)
    text = json.dumps(mended, ensure_ascii=False)
    assert text.encode().decode() == text and mend(mended) == mended
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        assert mended != value and ESCAPED.search(json.dumps(value).encode())
    else:
        assert mended == value
