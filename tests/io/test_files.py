import os

import pytest

from turnsmith.errors import SandboxError, UsageError
from turnsmith.io.files import parse_rows, read_json_lines, read_text, write_file
from turnsmith.io.programs import run_program


def test_lines_are_numbered_from_1_without_blank_ones_and_byte_order_mark(tmp_path):
    (file := tmp_path / "rows.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n["\\ud800"]\n{')
    first, second, third = read_json_lines(file)
    assert (first.parse(), second.parse()) == ({"a": 1}, ["\ud800"])
    with pytest.raises(UsageError, match=r"rows\.jsonl, line 4: not valid JSON"):
        third.parse()


@pytest.mark.parametrize(("text", "rows"), [("[1, 2]", [1, 2]), ("1\n\n2\n", [1, 2]), ("{}", [{}]), ("", [])])
def test_rows_are_the_items_of_a_list_or_lines(tmp_path, text, rows):
    assert [row for _, row in parse_rows(text, tmp_path)] == rows


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_an_unreadable_text_is_refused_with_the_remedy(tmp_path, content):
    if content:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(UsageError, match=r"the prompt .*/file .*: give another"):
        read_text(tmp_path / "file", "the prompt", "give another")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write_file(tmp_path / "new" / "file", "old")
    with pytest.raises(UnicodeEncodeError):
        write_file(tmp_path / "new" / "file", "\ud800")
    assert [path.read_text() for path in (tmp_path / "new").iterdir()] == ["old"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["sh", "-c", "echo first >&2; echo last >&2; exit 3"], "last"),
        (["sh", "-c", "exit 3"], "exit code 3"),
        (["sleep", "100"], "no answer in 0.2 s"),
        (["/no/such/program"], "No such file"),
    ],
)
def test_a_failed_program_is_an_error_with_its_reason(command, reason):
    with pytest.raises(SandboxError, match=f"cannot look: .*{reason}"):
        run_program(command, "cannot look", timeout_s=0.2 if "sleep" in command else None, error=SandboxError)


def test_a_program_reads_bytes_or_a_descriptor(tmp_path):
    assert run_program(["cat"], "", stdin=b"text") == b"text"
    assert run_program(["cat"], "") == b""
    (tmp_path / "file").write_text("held")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    assert run_program(["cat"], "", stdin=descriptor) == b"held"
    os.close(descriptor)
