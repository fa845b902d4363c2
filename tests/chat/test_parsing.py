import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.chat.parsing import FormatError, find_blocks, parse_turn

NO_COMMAND = FormatError.NO_COMMAND
MULTIPLE = FormatError.MULTIPLE_COMMANDS

lines = st.text(alphabet=string.printable.replace("`", "").replace("\r", "").replace("\x0b", "").replace("\x0c", ""))
prose = lines.map(lambda text: text + "\n")
commands = lines.filter(lambda text: text.strip())


def block(command, fence="```"):
    return f"{fence}command\n{command}\n{fence}\n"


@given(prose, commands, prose)
def test_body_of_the_only_block_is_the_command_unchanged(before, command, after):
    assert parse_turn(before + block(command) + after) == command


@given(prose, commands, prose, commands)
def test_two_blocks_are_a_format_error(before, first, between, second):
    assert parse_turn(before + block(first) + between + block(second)) == MULTIPLE


@given(prose, commands)
def test_unclosed_block_has_no_command(before, command):
    assert parse_turn(f"{before}```command\n{command}") == NO_COMMAND


@given(st.text())
def test_any_text_parses_to_a_command_or_format_error(text):
    parsed = parse_turn(text)
    assert parsed in (NO_COMMAND, MULTIPLE) or parsed.strip()


@given(st.lists(commands, max_size=4))
def test_find_blocks_returns_all_blocks_in_order(bodies):
    assert find_blocks("\n".join(map(block, bodies))) == bodies


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I will list the files: ls -a",
        "```edit 198:198\nx = 1\n```",
        "```bash\nls\n```",
        "``command\nls\n``",
        " ```command\nls\n```",
        "say ```command\nls\n```",
        "```command ls\n```",
        "```command\nls ```",
        "```command\n```",
        "```command\n \n\n```",
        "```command",
        "```commands\nls\n```",
    ],
)
def test_only_a_closed_block_with_a_body_is_a_command(text):
    assert parse_turn(text) == NO_COMMAND


def test_other_blocks_are_reasoning():
    assert parse_turn("```python\nx = 1\n```\nso:\n```command\nls\n```") == "ls"


def test_spaces_after_a_fence_do_not_matter():
    assert parse_turn("```command  \nls\n``` \n") == "ls"


def test_a_heredoc_keeps_its_lines():
    command = "edit 1:2 << 'EOF'\n    a = `x`\n\n  ```python\nEOF"
    assert parse_turn(block(command)) == command


def test_line_of_three_backticks_closes_a_block_of_three():
    assert parse_turn("```command\ncat << 'EOF'\n```\nEOF\n```\n") == "cat << 'EOF'"


def test_a_block_of_four_backticks_can_hold_three():
    command = "cat > README.md << 'EOF'\n```command\nls\n```\nEOF"
    assert parse_turn(block(command, fence="````")) == command


def test_unclosed_second_block_counts():
    assert parse_turn(block("ls") + "```command\npwd") == MULTIPLE
