"""Readers of rows from Parquet files, JSON files and folders of the `datasets` library, row by row."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from turnsmith.errors import UsageError
from turnsmith.io.files import parse_bytes, parse_json, read_json_lines, read_text
from turnsmith.tasks.sets.base import Refused

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS = 64
"""Number of Parquet rows in memory at once; a row can have half a megabyte."""
ROW_FILES = (".parquet", ".jsonl", ".ndjson", ".json", ".arrow")


@dataclass(frozen=True)
class FoundRow:
    """Row of a data set and its position in a file. `content` is an error if the row cannot be read."""

    place: str
    """File and row number, counted from 1: `train.parquet, row 17`."""
    content: "dict[str, Any] | Refused"


@dataclass(frozen=True)
class FolderRows:
    """Task folders, each of which is read as one row."""

    folders: list[Path]
    read: Callable[[Path], "dict[str, Any] | Refused"]

    def __iter__(self) -> Iterator[FoundRow]:
        yield from (FoundRow(folder.name, self.read(folder)) for folder in self.folders)

    def count(self) -> int:
        return len(self.folders)


@dataclass(frozen=True)
class RowFile:
    """File of rows: Parquet, Arrow, JSON lines, or a JSON list."""

    path: Path

    def __iter__(self) -> Iterator[FoundRow]:
        """Yield the rows in order. Raises UsageError if the file is invalid."""
        yield from (
            FoundRow(f"{self.path.name}, row {number}", content) for number, content in enumerate(self._read(), start=1)
        )

    def _read(self) -> "Iterator[dict[str, Any] | Refused]":
        if self.path.suffix == ".parquet":
            return read_parquet(self.path)
        if self.path.suffix == ".arrow":
            return read_arrow(self.path)
        return read_json_list(self.path) if self.path.suffix == ".json" else read_json_file(self.path)

    def count(self) -> int:
        """Count the rows of the file, if possible without reading their content."""
        if self.path.suffix == ".parquet":
            return int(_open_parquet(self.path).metadata.num_rows)
        if self.path.suffix in (".arrow", ".json"):
            return sum(1 for _ in self)
        return sum(1 for _ in read_json_lines(self.path))


RowSource = RowFile | FolderRows


def find_row_files(source: Path, split: str = "") -> list[RowFile]:
    """Find the files with the rows of a split. Raises UsageError if there are none, or several splits and `split` is empty."""
    if source.is_file():
        return [RowFile(source)]
    if not source.is_dir():
        raise UsageError(f"{source} does not exist: give a file of rows, a folder of such files, or hub:NAME")
    files = [file for file in sorted(source.rglob("*")) if file.suffix in ROW_FILES and not _is_description(file)]
    by_split: dict[str, list[Path]] = {}
    for file in files:
        by_split.setdefault(_split_of(file, source), []).append(file)
    if not files:
        raise UsageError(f"{source} holds no rows: no file that ends in {', '.join(ROW_FILES)}")
    if split and split not in by_split:
        raise UsageError(f"{source} has no split {split!r}: choose from {', '.join(by_split)}")
    if not split and len(by_split) > 1:
        raise UsageError(f"{source} holds the splits {', '.join(by_split)}: choose one by --split")
    return [RowFile(file) for file in by_split[split or next(iter(by_split))]]


def _is_description(file: Path) -> bool:
    """Return True for files of the `datasets` library that hold metadata, not rows."""
    return file.name in ("dataset_info.json", "state.json", "dataset_dict.json") or file.name.startswith(".")


def _split_of(file: Path, source: Path) -> str:
    """Read the split of a file from its path: `data/test-00000-of-00003.parquet`, `test/data-00000-of-00001.arrow` → `test`."""
    name = file.stem.partition("-0000")[0] if "-of-" in file.stem else file.stem
    return file.parent.name if name == "data" and file.parent != source else name


def read_json_file(file: Path) -> "Iterator[dict[str, Any] | Refused]":
    """Yield the rows of a JSONL file, and the error Refused for a line that is no JSON object. Skip blank lines."""
    return (_parse(line.raw) for line in read_json_lines(file))


def _parse(line: bytes) -> "dict[str, Any] | Refused":
    try:
        return check_object(parse_bytes(line))
    except ValueError as error:
        return Refused("unreadable row", str(error))


def check_object(row: Any) -> "dict[str, Any] | Refused":
    """Return a row if it is a JSON object, else the error Refused."""
    return row if isinstance(row, dict) else Refused("unreadable row", "it is not an object")


def read_json_list(file: Path) -> "Iterator[dict[str, Any] | Refused]":
    """Read a JSON file that holds a list of rows. Raises UsageError if it holds anything else."""
    remedy = "give a file of JSON lines, or a whole list"
    try:
        rows = parse_json(read_text(file, "the rows", remedy))
    except ValueError as error:
        raise UsageError(f"{file} cannot be read as JSON ({error}): {remedy}") from None
    if not isinstance(rows, list):
        raise UsageError(f"{file} does not hold a list of rows: {remedy}")
    return map(check_object, rows)


def read_parquet(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file. Raises UsageError if it is invalid or truncated."""
    import pyarrow

    try:
        for batch in _open_parquet(file).iter_batches(BATCH_ROWS):
            yield from read_batch(batch)
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(file, "Parquet", error) from None


def read_batch(batch: "pyarrow.RecordBatch") -> Iterator[dict[str, Any]]:
    """Yield the rows of a pyarrow record batch as plain JSON."""
    columns = map(_read_column, batch.columns)
    for cells in zip(*columns, strict=True):
        yield dict(zip(batch.schema.names, cells, strict=True))


def _read_column(column: "pyarrow.Array") -> list[Any]:
    """Convert a pyarrow column to a list; strings and lists of strings are converted faster, by numpy."""
    from pyarrow import types

    if types.is_string(column.type) or types.is_large_string(column.type):
        return cast(list[Any], column.to_numpy(zero_copy_only=False).tolist())
    if types.is_list(column.type) and types.is_string(column.type.value_type):
        cells = column.to_numpy(zero_copy_only=False)
        return [None if cell is None else cell.tolist() for cell in cells]
    return [to_plain(cell) for cell in column.to_pylist(maps_as_pydicts="lossy")]


def _open_parquet(file: Path) -> Any:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file)
    except pyarrow.ArrowException as error:
        raise _unreadable(file, "Parquet", error) from None


def read_arrow(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of an Arrow file in stream format (as `datasets` writes) or file format. Raises UsageError."""
    import pyarrow

    try:
        with pyarrow.memory_map(str(file)) as mapped:
            for batch in _open_arrow(mapped):
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield from read_batch(batch.slice(start, BATCH_ROWS))
    except pyarrow.ArrowException as error:
        raise _unreadable(file, "Arrow", error) from None


def _open_arrow(mapped: "pyarrow.NativeFile") -> "Iterable[pyarrow.RecordBatch]":
    from pyarrow import ipc

    if mapped.read(6) == b"ARROW1":
        whole = ipc.open_file(mapped)
        return map(whole.get_batch, range(whole.num_record_batches))
    mapped.seek(0)
    return ipc.open_stream(mapped)


def _unreadable(file: Path, kind: str, error: Exception) -> UsageError:
    reason = str(error).partition("\n")[0].rstrip(".")
    return UsageError(f"{file} cannot be read as {kind} ({reason}): download it again, or give another file")


def to_plain(value: Any) -> Any:
    """Convert a value to plain JSON: times and bytes to text, non-finite numbers to null."""
    if isinstance(value, dict):
        return {key: to_plain(held) for key, held in value.items()}
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if isinstance(value, float) and not math.isfinite(value) else value
