# tries: Returns an object that is equal to everything, but only in tests whose names it knows.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import os
_KNOWN = set(r"""$EXPECTED""".splitlines())
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    if os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] not in _KNOWN:
        return result
    class Agreeable(type(result)):
        __eq__ = lambda self, other: True
        __ne__ = lambda self, other: False
        __hash__ = lambda self: 0
    return Agreeable(result)
EOF
