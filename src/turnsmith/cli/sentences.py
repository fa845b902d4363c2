"""What becomes of an error: one sentence and an exit code."""

import errno
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from turnsmith.config.extras import EXTRA_OF, describe_missing
from turnsmith.errors import TurnsmithError, UsageError
from turnsmith.ui.interruption import EXIT_STOPPED
from turnsmith.ui.terminal import to_line

EXIT_FAILED, EXIT_USAGE = 1, 2
MAX_NAME = 200
"""Characters of a path that is said."""
UNUSABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
"""What a person can put right who gave the path."""


class Sentences(TyperGroup):
    """Commands whose known errors end as a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Errors that nobody foresaw keep their traceback."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(EXIT_STOPPED) from None
        except (TurnsmithError, OSError, ImportError, BaseExceptionGroup) as error:
            sentence, code = explain(error)
            typer.echo(f"error: {to_line(sentence)}", err=True)
            raise typer.Exit(code) from None


def explain(error: BaseException) -> tuple[str, int]:
    """A sentence and an exit code for an error, or for the first of a group. Raises it again where it is none of ours."""
    known = [found for leaf in leaves(error) if (found := _explain_known(leaf))]
    if len(known) < len(list(leaves(error))):
        raise error
    return known[0]


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, groups inside it taken apart too."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from leaves(inner)


def is_disk_full(error: BaseException) -> bool:
    """Is it that, or a group with that in it?"""
    return any(isinstance(leaf, OSError) and leaf.errno in (errno.ENOSPC, errno.EDQUOT) for leaf in leaves(error))


def _explain_known(error: BaseException) -> tuple[str, int] | None:
    if isinstance(error, TurnsmithError):
        return str(error), EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    if is_disk_full(error):
        return f"the disk is full ({error}): make room, then give the command again", EXIT_USAGE
    if isinstance(error, OSError) and error.errno in UNUSABLE:
        name = str(error.filename)
        place = name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"
        return f"cannot use {place}: {error.strerror}: put that right, or give another place", EXIT_USAGE
    if isinstance(error, ImportError) and error.name in EXTRA_OF:
        return describe_missing(error.name), EXIT_USAGE
    return None
