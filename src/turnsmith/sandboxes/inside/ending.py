"""The end of a forked interpreter: what it shared with all other forks is not taken apart, since nobody could see it go.

An interpreter that ends clears its modules, the newest first. When it comes to the newest of those that were imported before the
fork, then all that the code under test has made is gone. Going on would copy page after page only to free them.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import IO, Any

FLUSH_FAILED = 120
"""Exit code of an interpreter that could not write out what was printed."""

_NAME = "_ending"


class _Ending:
    """Ends the process when it is freed, with the exit code that was decided upon by then."""

    code: int | None = None
    _exit = ctypes.pythonapi.exit  # as an interpreter does at last: handlers and streams of C libraries have their turn

    def __del__(self) -> None:
        if self.code is not None:
            self._exit(self.code if _flush(sys.stdout) and _flush(sys.stderr) else FLUSH_FAILED)


@contextmanager
def end_with(module: ModuleType) -> Iterator[None]:
    """Where this is left for an ordinary exit, the interpreter will end when it comes to clear the module."""
    ending = vars(module)[_NAME] = _Ending()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(module))  # else it might be freed before its turn
    try:
        yield
    except SystemExit as exiting:
        if exiting.code is None or isinstance(exiting.code, int):
            ending.code = exiting.code or 0
        raise


def _flush(stream: IO[Any] | None) -> bool:
    try:
        if stream is not None and not stream.closed:
            stream.flush()
    except (OSError, ValueError):
        return False
    return True
