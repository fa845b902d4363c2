"""Error messages of the command line: one sentence and an exit code for each known error."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from turnsmith.config.extras import EXTRA_OF, describe_missing
from turnsmith.errors import TurnsmithError, UsageError
from turnsmith.ui.interruption import EXIT_STOPPED
from turnsmith.ui.terminal import to_line

EXIT_FAILED, EXIT_USAGE = 1, 2
MAX_NAME = 200
"""Maximum number of characters of a path in a message."""
UNUSABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
"""Error codes of file operations that the user can correct by another path or permission."""


class ErrorReportingGroup(TyperGroup):
    """Command group that prints known errors as one sentence."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the options of the group; `--help` and `--version` print here."""
        with reporting():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with reporting():
            return super().invoke(ctx)


@contextmanager
def reporting() -> Iterator[None]:
    """Print a known error in this block as one sentence, and exit. Unexpected errors keep their traceback."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        raise typer.Exit(EXIT_STOPPED) from None
    except (TurnsmithError, OSError, ImportError, BaseExceptionGroup) as error:
        sentence, code = explain(error)
        typer.echo(f"error: {to_line(sentence)}", err=True)
        raise typer.Exit(code) from None


def explain(error: BaseException) -> tuple[str, int]:
    """Return message and exit code of an error, or of a group's first. Raises `error` again if no message exists for a type."""
    known = [found for leaf in leaves(error) if (found := _explain_known(leaf))]
    if len(known) < len(list(leaves(error))):
        raise error
    return known[0]


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield all errors in an exception group and its nested groups, or `error` itself if it is not a group."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from leaves(inner)


def is_disk_full(error: BaseException) -> bool:
    """Return True if an error, or one in an exception group, reports a full disk or an exceeded quota."""
    return any(isinstance(leaf, OSError) and leaf.errno in (errno.ENOSPC, errno.EDQUOT) for leaf in leaves(error))


def _explain_known(error: BaseException) -> tuple[str, int] | None:
    if isinstance(error, TurnsmithError):
        return str(error), EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    if is_disk_full(error):
        return f"the disk is full ({error}): free some space, then run the command again", EXIT_USAGE
    if isinstance(error, OSError) and error.errno in UNUSABLE:
        name = str(error.filename)
        place = name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"
        return f"cannot use {place}: {error.strerror}: correct that, or give another path", EXIT_USAGE
    if isinstance(error, ImportError) and error.name in EXTRA_OF:
        return describe_missing(error.name), EXIT_USAGE
    return None
