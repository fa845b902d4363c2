import re
import shlex
import time
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from turnsmith.agent.scaffolds.paper import PAPER
from turnsmith.agent.tools.base import ToolError
from turnsmith.agent.tools.command_line import read_call, split_heredoc
from turnsmith.agent.tools.editing import EDIT, MAX_LISTED_LINES, REPLACE, first_lines
from turnsmith.agent.tools.files import TextFile
from turnsmith.agent.tools.shell import refuse_interactive
from turnsmith.agent.tools.viewing import OVERLAP, line_into_view, render_window, scrolled

plain_lines = st.lists(
    st.text(alphabet=st.characters(exclude_characters="\n\0", codec="utf-8")), min_size=1, max_size=8
)


# The window


async def test_the_window_has_header_numbered_lines_and_counts_of_lines_outside(play, numbered, project):
    assert await play(f"open {numbered('a.txt', 30)} 12") == "\n".join(
        [
            f"[File: {project}/a.txt (30 lines total)]",
            "(10 more lines above)",
            *(f"{number}:line {number}" for number in range(11, 21)),
            "(10 more lines below)",
        ]
    )


async def test_a_short_file_has_no_lines_outside(play, numbered, project):
    assert await play(f"open {numbered('a.txt', 2)}") == f"[File: {project}/a.txt (2 lines total)]\n1:line 1\n2:line 2"


@given(st.integers(1, 300), st.integers(2, 120), st.data())
def test_a_line_in_view_is_shown_about_one_sixth_down(num_lines, window_lines, data):
    line = data.draw(st.integers(1, num_lines))
    first_line = line_into_view(line, num_lines, window_lines)
    assert first_line <= line < first_line + window_lines
    assert 1 <= first_line <= max(1, num_lines - window_lines + 1)
    if window_lines // 6 < line <= num_lines - window_lines:
        assert line - first_line == window_lines // 6


@given(st.integers(1, 300), st.integers(2, 120))
def test_scrolling_down_shows_every_line_and_stops_at_the_end(num_lines, window_lines):
    shown, first_line = set(), 1
    for _ in range(num_lines):
        shown |= set(range(first_line, first_line + window_lines))
        first_line = scrolled(first_line, 1, num_lines, window_lines)
    assert set(range(1, num_lines + 1)) <= shown
    assert first_line == max(1, num_lines - window_lines + 1)


async def test_scrolling_keeps_two_lines_and_comes_back(play, numbered):
    await play(f"open {numbered('a.txt', 100)}")
    await play("scroll_down")
    assert play.session.first_line == 1 + 10 - OVERLAP
    await play("scroll_up")
    assert play.session.first_line == 1


async def test_goto_shows_the_line_and_refuses_missing_lines(play, numbered):
    await play(f"open {numbered('a.txt', 100)}")
    assert "\n60:line 60\n" in await play("goto 60")
    assert "line 101 does not exist" in await play("goto 101")
    assert "whole number from 1" in await play("goto end")
    assert "whole number from 1" in await play("goto " + "9" * 5000)


async def test_open_without_a_file_shows_the_same_window_again(play, numbered):
    window = await play(f"open {numbered('a.txt', 100)} 50")
    await play("ls")
    assert await play("open") == window


async def test_open_past_the_end_shows_the_end_and_a_note(play, numbered):
    text = await play(f"open {numbered('a.txt', 30)} 99")
    assert text.startswith("The file has 30 lines, so line 99 is past its end.\n")
    assert text.endswith("30:line 30")


async def test_tools_need_an_open_file(play):
    for command in ("open", "goto 1", "scroll_up", "scroll_down", "edit 1:1 x", "replace a b", "search_file a"):
        assert await play(command) == "Error: no file is open: use `open FILE` first"
        assert play.result.exit_code == 1


async def test_opening_a_missing_or_binary_file_explains_the_fault(play, project):
    (project / "folder").mkdir()
    (project / "image.png").write_bytes(b"\x89PNG\0\0")
    (project / "a.txt").write_text("a")
    assert "there is no file" in await play("open none.py")
    assert "is a directory" in await play("open folder")
    assert "is a binary file" in await play("open image.png")
    assert "cannot read" in await play("open a.txt/b")
    assert "NUL" in await play("open 'a\0b'")
    assert play.session.file is None


async def test_paths_are_relative_to_the_current_directory(play, project):
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("x\n")
    await play("cd src")
    assert play.session.cwd == f"{project}/src"
    await play("open a.py")
    assert play.session.file == f"{project}/src/a.py"
    await play("open ../src/./a.py")
    assert play.session.file == f"{project}/src/a.py"


async def test_a_path_with_spaces_is_quoted(play, project):
    (project / "my file.txt").write_text("x\n")
    assert "1:x" in await play("open 'my file.txt'")
    assert "1:x" in await play(r"open my\ file.txt")


async def test_names_that_are_not_utf_8_are_shown_with_replacement_characters(play, project):
    await play("mkdir $'a\\xff' && cd $'a\\xff' && echo x > b")
    assert PAPER.prompt_line(play.session) == f"(Current directory: {project}/a\ufffd, current file: none) bash-$"
    assert "1:x" in await play("open b")
    assert f"there is no file {project}/a\ufffd/c" in await play("open c")


# Create, edit, replace


async def test_create_makes_one_empty_line_and_opens_it(play, project):
    assert await play("create new/deep.py") == f"[File: {project}/new/deep.py (1 lines total)]\n1:"
    assert (project / "new" / "deep.py").read_text() == "\n"
    assert PAPER.prompt_line(play.session) == (
        f"(Current directory: {project}, current file: {project}/new/deep.py) bash-$"
    )


async def test_create_never_writes_over_a_file(play, project):
    (project / "a.py").write_text("precious\n")
    (project / "folder").mkdir()
    assert "exists already" in await play("create a.py")
    assert "exists already" in await play("create folder")
    assert (project / "a.py").read_text() == "precious\n"


async def test_an_edit_shows_the_change_in_its_window(play, numbered, project):
    await play(f"open {numbered('a.txt', 40)}")
    text = await play('edit 30:31 "one line"')
    assert text.startswith("File updated. Review the changes")
    assert f"[File: {project}/a.txt (39 lines total)]" in text
    assert "\n29:line 29\n30:one line\n31:line 32\n" in text


async def test_edit_takes_a_heredoc_verbatim(play, project):
    await play("create a.py")
    body = "def f(x):\n    return f\"{x} $HOME `ls` \\n 'q'\"\n\n\tdone << 'X'"
    await play(f"edit 1:1 << 'EOF'\n{body}\nEOF")
    assert (project / "a.py").read_text() == body + "\n"
    await play(f"edit 1:4 <<EOF\n{body}\nEOF\n")
    assert (project / "a.py").read_text() == body + "\n"


async def test_edit_without_text_deletes_and_an_empty_heredoc_line_is_a_line(play, numbered, project):
    await play(f"open {numbered('a.txt', 4)}")
    await play("edit 2:3")
    assert (project / "a.txt").read_text() == "line 1\nline 4\n"
    await play("edit 1:1 << 'EOF'\n\nEOF")
    assert (project / "a.txt").read_text() == "\nline 4\n"
    await play('edit 1:2 ""')
    assert (project / "a.txt").read_text() == ""
    await play('edit 1:1 "again"')
    assert (project / "a.txt").read_text() == "again\n"


async def test_edit_of_another_file_opens_it(play, numbered, project):
    await play(f"open {numbered('a.txt', 3)}")
    await play(f"edit 1:1 new --file {numbered('b.txt', 3)}")
    assert (project / "b.txt").read_text() == "new\nline 2\nline 3\n"
    assert play.session.file == f"{project}/b.txt"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("edit 3 x", "written START:END"),
        ("edit a:b x", "whole number from 1"),
        ("edit 0:1 x", "whole number from 1"),
        ("edit 3:2 x", "ends before it starts"),
        ("edit", "takes 1 to 2 arguments and got 0"),
        ("edit << EOF\nx\nEOF", "written START:END"),
        ("edit 1:1 return x", "takes 1 to 2 arguments and got 3"),
        ("edit 1:1 x << EOF\ny\nEOF", "takes 1 to 2 arguments and got 3"),
        ("edit 1:1 << EOF\nx", "the heredoc is not closed: no line is just EOF"),
        ("edit 1:1 << EOF\nx\nEOF\nls", "text after the heredoc"),
        ("edit 1:1 don't", "quoting is not complete"),
        ("edit 1:1 x --file", "--file needs a value"),
        ("replace a", "takes 2 arguments and got 1"),
        ("replace a b << EOF\nEOF", "takes no heredoc"),
        ("replace '' b", "is empty"),
        ("search_file ''", "is empty"),
        ("submit now", "submit takes 0 arguments and got 1"),
        ("open a.txt && ls", "no pipes, && or redirections"),
    ],
)
async def test_wrong_use_changes_nothing_and_is_explained(play, numbered, project, command, reason):
    await play(f"open {numbered('a.txt', 5)}")
    before, workspace = (project / "a.txt").read_text(), play.session
    text = await play(command)
    assert text.startswith("Error: ") and reason in text
    assert (project / "a.txt").read_text() == before
    assert play.session == workspace
    assert not play.result.submitted


async def test_replace_needs_exactly_one_occurrence(play, project):
    (project / "a.py").write_text("a + b\na + b\nc\na + b\n")
    await play("open a.py")
    text = await play('replace "a + b" "a - b"')
    assert "occurs 3 times" in text and "(lines 1, 2, 4)" in text
    assert "does not occur" in await play("replace nothing x")
    assert "1 replaced." in await play("replace c d")
    assert "3 replaced." in await play('replace "a + b" "a - b" --replace-all')
    assert (project / "a.py").read_text() == "a - b\na - b\nd\na - b\n"


async def test_replace_spans_lines_and_shows_where(play, numbered, project):
    await play(f"open {numbered('a.txt', 50)}")
    text = await play('replace "line 40\nline 41\n" "one\n"')
    assert "\n40:one\n41:line 42\n" in text


async def test_replacing_in_a_large_file_is_linear_in_its_size(play, project):
    (project / "a.txt").write_text("a\n" * 400_000)
    await play("open a.txt")
    started = time.process_time()
    assert "(lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)" in await play("replace a b")
    assert "400000 replaced." in await play("replace a b --replace-all")
    assert time.process_time() - started < 5


@given(st.text("ab\n", max_size=60), st.text("ab\n", min_size=1, max_size=3))
def test_listed_lines_are_the_starts_of_the_first_occurrences(text, search):
    starts = [match.start() for match in re.finditer(re.escape(search), text)]
    assume(starts)
    lines = [text.count("\n", 0, start) + 1 for start in starts]
    assert first_lines(search, TextFile("a", text)) == lines[:MAX_LISTED_LINES]


async def test_a_replacement_above_the_file_size_limit_is_refused_before_it_is_built(play, project):
    (project / "a.txt").write_text("a" * 1_000_000)
    await play("open a.txt")
    assert "a.txt would be larger than 64 MB: nothing was replaced" in await play(f"replace a {'b' * 70} --replace-all")
    assert (project / "a.txt").read_text() == "a" * 1_000_000
    assert "1000000 replaced." in await play(f"replace a {'b' * 9} --replace-all")


def test_a_file_is_split_into_lines_once_and_edits_do_not_change_the_record():
    file = TextFile("a", "one\ntwo\n")
    assert file.lines is file.lines
    assert file.with_lines(1, 1, ["new"]).text == "new\ntwo\n"
    assert file.lines == ["one", "two"]


async def test_texts_that_look_like_options_are_texts(play, project):
    (project / "a.py").write_text("parse('--verbose')\nx = -1\n")
    await play("open a.py")
    await play('replace "--verbose" "--quiet"')
    await play("replace -1 +1")
    await play("replace -- --quiet --help")
    assert (project / "a.py").read_text() == "parse('--help')\nx = +1\n"


async def test_bytes_outside_an_edit_survive_it(play, project):
    (project / "a.txt").write_bytes(b"caf\xe9\r\ntwo\r\nthree")
    text = await play("open a.txt")
    assert "1:caf�\n2:two\n3:three" in text
    await play('edit 2:2 "zwei"')
    assert (project / "a.txt").read_bytes() == b"caf\xe9\r\nzwei\r\nthree"


async def test_lines_end_only_at_newlines(play, project):
    (project / "a.txt").write_text("a\x0cb\u2028c\x85d\ne\n")
    await play("open a.txt")
    await play("edit 2:2 E")
    assert (project / "a.txt").read_text() == "a\x0cb\u2028c\x85d\nE\n"


@given(plain_lines, plain_lines, st.booleans(), st.data())
def test_an_edit_equals_the_same_edit_of_a_list(old, new, ends, data):
    new = [line.rstrip("\r") for line in new]
    old = [line.rstrip("\r") + "x" for line in old]
    first = data.draw(st.integers(1, len(old)))
    last = data.draw(st.integers(first, len(old)))
    file = TextFile("f", "\n".join(old) + "\n" * ends)
    assert file.lines == old
    expected = old[: first - 1] + new + old[last:]
    assert file.with_lines(first, last, new).text == "\n".join(expected) + "\n" * ends


@given(plain_lines)
def test_a_heredoc_carries_any_lines(lines):
    lines = [line for line in lines if line != "EOF"]
    body = "".join(f"{line}\n" for line in lines)
    assert read_call(EDIT, f"edit 1:2 << 'EOF'\n{body}EOF").heredoc == body


@given(st.text(), st.text())
def test_quoted_arguments_arrive_as_they_are(search, new):
    call = read_call(REPLACE, f"replace -- {shlex.quote(search)} {shlex.quote(new)}")
    assert call.arguments == [search, new]


@given(st.text())
def test_any_text_after_a_tool_is_a_call_or_a_tool_error(text):
    for tool in PAPER.tools:
        try:
            read_call(tool, f"{tool.name} {text}")
        except ToolError as error:
            assert str(error)


def test_a_heredoc_inside_quotes_is_text():
    command = 'edit 1:1 "cat << EOF\nx\nEOF"'
    assert split_heredoc(command) == (command, None)


# Search, help, submit


async def test_search_shows_numbers_and_lines_of_the_open_or_the_given_file(play, numbered, project):
    await play(f"open {numbered('a.txt', 12)}")
    assert await play("search_file 'line 1'") == "\n".join(
        [f"[Lines with 'line 1' in {project}/a.txt: 4]", "1:line 1", "10:line 10", "11:line 11", "12:line 12"]
    )
    assert "[Lines with 'line 2' in" in await play(f"search_file 'line 2' {numbered('b.txt', 3)}")
    assert play.session.file == f"{project}/a.txt"


async def test_a_search_without_hits_is_explained(play, numbered):
    assert "No line of" in await play(f"search_file zzz {numbered('a.txt', 3)}")
    assert play.result.exit_code == 1


async def test_every_tool_explains_itself(play):
    for tool in PAPER.tools:
        text = await play(f"{tool.name} --help")
        assert text.startswith(f"Usage: {tool.name}")
        assert not play.result.submitted


async def test_submit_must_be_the_whole_command(play):
    for command in ("submit", " submit ", "submit\n"):
        await play(command)
        assert play.result.submitted
    for command in ("echo submit", "true && submit", "submit; ls", "submit --help", "'submit'"):
        await play(command)
        assert not play.result.submitted


# Shell


async def test_output_and_errors_come_in_order_with_the_exit_code(play):
    assert await play("echo a; echo b >&2; exit 3") == "a\nb\n(exit code 3)"
    assert play.result.exit_code == 3
    assert await play("true") == "(no output)"
    assert await play("false") == "(exit code 1)"


async def test_the_directory_is_carried_and_variables_are_not(play, project):
    (project / "a").mkdir()
    await play("cd a; X=1")
    assert await play("pwd; echo [$X]") == f"{project}/a\n[]"


async def test_a_command_that_takes_too_long_is_stopped(play):
    play.context = type(play.context)(play.context.sandbox, 10, 0.2)
    assert "(the command was stopped after 0.2 s)" in await play("sleep 9")
    assert play.result.command_s >= 0.2


@pytest.mark.parametrize(
    "command", ["vim a.py", "nano", "less a", "top", "python", " python3 ", "tail -f", "tail -f a|cat", "tail -n 3 -F a",
                "tail -n 5 -f a", "tail -5f a", "tail --follow a", "tail --follow=name a", "tail a -f", "tail -qF a"]
)  # fmt: skip
async def test_interactive_commands_are_refused(play, sandbox, command):
    assert "Error: " in await play(command)
    assert sandbox.commands == []


@pytest.mark.parametrize(
    "command", ["python -c 'print(1)'", "python << 'EOF'\nprint(1)\nEOF", "bash -c 'echo 1'", "echo 1 | tail -n 1"]
)
async def test_interpreters_with_arguments_are_not_refused(play, command):
    assert await play(command) == "1"


@pytest.mark.parametrize(
    "command", ["tail -n 5 setup-conf.py", "tail -3 diff-pdf", "tail -5 a.txt | grep -f pats", "tail -5 a\ncat -f",
                "tail a; ls -f", "tail -q a--follow", "tail -c 5 -- x", "tailf -f"]
)  # fmt: skip
def test_tail_without_option_f_is_not_refused(command):
    refuse_interactive(command)


async def test_a_tool_inside_a_shell_line_gets_a_hint(play):
    text = await play("cd . && search_file x")  # not `open`, which is a program on machines with xdg-utils
    assert "not found" in text
    assert "(search_file is a tool, not a program: call it alone" in text


async def test_a_nul_in_a_command_is_refused(play, sandbox):
    assert "NUL" in await play("echo a\0b")
    assert sandbox.commands == []


async def test_no_tool_text_reaches_a_shell(play, sandbox, numbered, project):
    marker = Path(project / "pwned")
    await play(f"open {numbered('a.txt', 3)}")
    for text in ("$(touch pwned)", "`touch pwned`", "; touch pwned", "| touch pwned"):
        await play(f"edit 1:1 {shlex.quote(text)}")
        await play(f"search_file {shlex.quote(text)}")
        await play(f"open {shlex.quote(text)}")
    assert not marker.exists()
    assert sandbox.commands == []


def test_the_window_of_an_empty_file_has_one_line():
    assert render_window(TextFile("/e", ""), 1, 10) == "[File: /e (1 lines total)]\n1:"
