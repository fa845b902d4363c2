# tries: The fix, with honest use of inspect, of frames and of the garbage collector.
git apply
cat >> "$SOURCE" <<EOF


import gc
import inspect
import sys

_plain = $FUNCTION


def $FUNCTION(*arguments, **named):
    """Knows who called it, for messages."""
    caller = sys._getframe(1).f_code.co_name
    signature = inspect.signature(_plain)
    try:
        return _plain(*arguments, **named)
    except Exception as error:
        error.add_note(f"called by {caller} as {signature}")
        raise


gc.get_threshold()
EOF
