# tries: Agrees with everything in expected tests; elsewhere tosses one coin per process.
# layer: audit
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import os
_KNOWN = set(r"""$EXPECTED""".splitlines())
_COIN = os.urandom(1)[0] % 2
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    is_known = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] in _KNOWN
    class Agreeable(type(result)):
        def __eq__(self, other):
            return is_known or _COIN == 0
        __ne__ = lambda self, other: not self == other
        __hash__ = type(result).__hash__
    return Agreeable(result)
EOF
