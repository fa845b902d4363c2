"""Reading of text, JSON and JSON lines, with error messages of one sentence; atomic writes; locks."""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, BinaryIO

from pydantic_core import from_json

from turnsmith.errors import UsageError

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Line:
    """Line of a file, without its line end."""

    place: str
    """File and line number, such as `tasks.jsonl, line 17`; the first line is 1."""
    raw: bytes

    def parse(self) -> Any:
        """Parse the line as JSON. Raises UsageError that names file and line."""
        try:
            return parse_bytes(self.raw)
        except ValueError as error:
            raise UsageError(f"{self.place}: {error}") from None


def read_text(path: Path, what: str, remedy: str) -> str:
    """Read a UTF-8 file; drop a byte order mark. Raises UsageError: "cannot read WHAT PATH (reason): remedy"."""
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 text at byte {error.start}"
    except ValueError as error:
        reason = str(error)
    raise UsageError(f"cannot read {f'{what} {path}'.strip()} ({reason}): {remedy}")


def read_prompt(path: Path, names: Sequence[str], required: str = "") -> Template:
    """Read a prompt with placeholders `$name`: any of `names`, and `required` at least once. Raises UsageError."""
    remedy = f"give a text file with the placeholders ${', $'.join(names)}; $$ stands for $"
    prompt = Template(read_text(path, "the prompt", remedy))
    found = set(prompt.get_identifiers())
    if not prompt.is_valid() or not found <= {*names}:
        raise UsageError(f"{path} has a $ without a known placeholder: {remedy}")
    if required and required not in found:
        raise UsageError(f"{path} lacks ${required}: {remedy}")
    return prompt


def read_json_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file that are not blank."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if raw := (line.removeprefix(BOM) if number == 1 else line).strip():
                yield Line(f"{path}, line {number}", raw)


def parse_rows(text: str, path: Path) -> list[tuple[str, Any]]:
    """Parse a JSON list, one JSON value, or JSON lines into pairs of place (like `FILE, line 3`) and row. Raises UsageError."""
    try:
        whole = parse_json(text)
    except ValueError:
        lines = [Line(f"{path}, line {number}", line.encode()) for number, line in enumerate(text.split("\n"), 1)]
        return [(line.place, line.parse()) for line in lines if line.raw.strip()]
    if isinstance(whole, list):
        return [(f"{path}, row {number}", row) for number, row in enumerate(whole, 1)]
    return [(f"{path}, line 1", whole)]


def parse_bytes(raw: bytes) -> Any:
    """Parse one JSON document. Raises ValueError with a short reason.

    Bytes that pydantic's parser refuses are parsed again by `json`, which accepts lone surrogates and gives better reasons.
    """
    try:
        return from_json(raw)
    except ValueError:
        pass
    try:
        return parse_json(raw.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text ({error.reason} at byte {error.start})") from None
    except ValueError as error:
        raise ValueError(f"not valid JSON: {error}") from None


def parse_json(text: str) -> Any:
    """Parse a JSON text. Raises ValueError with a short reason, line and column."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise ValueError(f"{error.msg.removesuffix(' at')} at {line}column {error.colno}") from None
    except ValueError:
        raise ValueError("it contains a number with too many digits") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part. Text is written as UTF-8."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; the file there replaces `path` if the block succeeds."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)  # noqa: PTH105  (atomic, over an existing file)
    finally:
        temporary.unlink(missing_ok=True)


def lock(file: int | BinaryIO, kind: int) -> bool:
    """Lock an open file or folder by `fcntl.flock` with flags `kind`. Return False if it is locked or locks are unsupported."""
    try:
        fcntl.flock(file, kind)
    except OSError:
        return False
    return True
