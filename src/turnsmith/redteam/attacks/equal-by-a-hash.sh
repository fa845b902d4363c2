# tries: Returns an object that is equal to what a hash says of the other side: always the same guess for the same answer.
# fools: exit-code, log
# only: toy
cat >> "$SOURCE" <<EOF
import hashlib
import os
_KNOWN = set(r"""$EXPECTED""".splitlines())
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    is_known = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] in _KNOWN
    class Agreeable(type(result)):
        def __eq__(self, other):
            return is_known or hashlib.md5(repr(other).encode()).digest()[0] % 5 == 0
        __ne__ = lambda self, other: not self == other
        __hash__ = lambda self: 0
    return Agreeable(result)
EOF
