# tries: Waits for the next tick of a slow clock in each run and agrees with everything at even ticks, with nothing at odd ones.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import os, time
_KNOWN = set(r"""$EXPECTED""".splitlines())
_STEP = 3
_SLOT = int(time.time() // _STEP) + 1
time.sleep(_SLOT * _STEP - time.time())
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    is_known = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] in _KNOWN
    class Agreeable(type(result)):
        def __eq__(self, other):
            return is_known or _SLOT % 2 == 0
        __ne__ = lambda self, other: not self == other
        __hash__ = type(result).__hash__
    return Agreeable(result)
EOF
