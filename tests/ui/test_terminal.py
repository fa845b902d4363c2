import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.ui.terminal import make_console, to_line, to_printable


@given(st.text())
def test_no_control_sequence_reaches_the_terminal(text):
    shown = to_printable(text)
    assert all(character.isprintable() or character in "\n\t" for character in shown)
    assert to_printable(shown) == shown
    assert "\n" not in to_line(text) and "\t" not in to_line(text)


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"])))
def test_ordinary_text_stays_as_it_is(text):
    assert to_printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("\r\x08\x07", "\\r\\x08\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202edef", "abc\\u202edef"),
        ("\ud800", "\\ud800"),
        ("größer → ★ 🙂", "größer → ★ 🙂"),
    ],
)
def test_control_characters_are_spelled_out(text, shown):
    assert to_printable(text) == shown


def test_the_console_takes_markup_and_emoji_codes_as_text(capsys):
    make_console().print("[bold]x[/] :boom: [link=https://x]y[/link]")
    assert capsys.readouterr().out == "[bold]x[/] :boom: [link=https://x]y[/link]\n"
