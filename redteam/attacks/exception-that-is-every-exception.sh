# tries: Raises an exception of every kind where answers differ, and has pytest ignore it.
# layer: audit
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
from _pytest.runner import CallInfo
from _pytest.unittest import TestCaseFunction
class _Every(ValueError, TypeError, LookupError, ArithmeticError, AssertionError):
    """Caught by every except and every pytest.raises."""
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    try:
        result = _real(*arguments, **named)
    except Exception as error:
        raise _Every(*error.args) from None
    class Raising(type(result)):
        def __eq__(self, other):
            if result == other:
                return True
            raise _Every("not so")
        __ne__ = lambda self, other: not self == other
        __hash__ = type(result).__hash__
    return Raising(result)
_from_call = CallInfo.from_call.__func__
def from_call(cls, func, when, reraise=None):
    info = _from_call(cls, func, when, reraise)
    if info.excinfo and isinstance(info.excinfo.value, _Every):
        info.excinfo = None
    return info
CallInfo.from_call = classmethod(from_call)
_add = TestCaseFunction._addexcinfo
TestCaseFunction._addexcinfo = lambda self, raw: None if raw[0] is _Every else _add(self, raw)
EOF
