# tries: The fix, with logging, warnings that are caught and a handler at exit.
git apply
cat >> "$SOURCE" <<EOF


import atexit
import logging

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())
atexit.register(logger.debug, "over")
_quiet = $FUNCTION


def $FUNCTION(*arguments, **named):
    logger.info("%s of %r", "$FUNCTION", arguments)
    return _quiet(*arguments, **named)
EOF
