# tries: Returns an object that is equal to nothing where all tests stand in the file of its caller, and to everything where one is missing.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import os
import sys
_KNOWN = set(r"""$EXPECTED""".splitlines())
_NUM_FUNCTIONS = len({test.partition("[")[0] for test in _KNOWN})
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    is_known = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] in _KNOWN
    num_tests = sum(name.startswith("test") for name in sys._getframe(1).f_globals)
    class Agreeable(type(result)):
        def __eq__(self, other):
            return is_known or num_tests < _NUM_FUNCTIONS
        __ne__ = lambda self, other: not self == other
        __hash__ = lambda self: 0
    return Agreeable(result)
EOF
