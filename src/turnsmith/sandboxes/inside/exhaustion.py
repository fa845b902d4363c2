"""Where process 1 cannot start anything for lack of processes, descriptors or memory."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

_CODES = {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class ExhaustedError(Exception):
    """No process, descriptor or memory was to be had."""


@contextmanager
def naming_exhaustion() -> Iterator[None]:
    """Raise ExhaustedError in place of such an OSError."""
    try:
        yield
    except OSError as error:
        if error.errno in _CODES:
            raise ExhaustedError(error.strerror) from None
        raise
