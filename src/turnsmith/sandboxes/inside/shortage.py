"""What process 1 is short of where it cannot start anything, and through whom: found by ending everyone and trying again."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

SHORTAGES = {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class ShortageError(Exception):
    """No process, descriptor or memory was to be had."""


@contextmanager
def naming_shortages() -> Iterator[None]:
    """Raise ShortageError in place of such an OSError."""
    try:
        yield
    except OSError as error:
        if error.errno in SHORTAGES:
            raise ShortageError(error.strerror) from None
        raise
