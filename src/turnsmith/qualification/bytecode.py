"""Bytecode that was compiled from another text than the one beside it, such as the fixed one."""

from collections.abc import Collection, Iterator, Mapping
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path, PurePosixPath

from turnsmith.qualification.record import Leak, LeakKind

FLAG_HASHED = 1
SIZE_MASK = 0xFFFFFFFF


def find_stale_bytecode(files: Mapping[str, Path], changed: Collection[str]) -> Iterator[Leak]:
    """Bytecode of the changed files that does not belong to the text there; what cannot be told counts."""
    for path in sorted(files):
        source = to_source(path)
        if source in changed and not fits(files[path].read_bytes(), files.get(source)):
            yield Leak(kind=LeakKind.BYTECODE, where=path, what=f"compiled from another text than {source} has")


def to_source(path: str) -> str:
    """`pkg/__pycache__/a.cpython-311.pyc` and `pkg/a.pyc` → `pkg/a.py`; nothing for what is no bytecode."""
    pure = PurePosixPath(path)
    if pure.suffix not in (".pyc", ".pyo"):
        return ""
    folder = pure.parent.parent if pure.parent.name == "__pycache__" else pure.parent
    return str(folder / f"{pure.name.partition('.')[0]}.py")


def fits(bytecode: bytes, source: Path | None) -> bool:
    """Does the head of the bytecode name the source as it is, by hash, or by time and size?"""
    if source is None or len(bytecode) < 16:
        return False
    if int.from_bytes(bytecode[4:8], "little") & FLAG_HASHED:
        return bytecode[:4] == MAGIC_NUMBER and bytecode[8:16] == source_hash(source.read_bytes())
    status = source.stat()
    named = [int.from_bytes(bytecode[at : at + 4], "little") for at in (8, 12)]
    return named == [int(status.st_mtime) & SIZE_MASK, status.st_size & SIZE_MASK]
