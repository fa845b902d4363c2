# tries: Jumps, by a trace function, over the lines of pytest and unittest that call a test.
# layer: verdict
# fools: exit-code, log
cat >> "$SOURCE" <<'EOF'
import inspect, sys
from _pytest import python
import unittest.case
def _lines(function):
    lines, start = inspect.getsourcelines(function)
    return {start + number: line.strip() for number, line in enumerate(lines)}
_PYFUNC = _lines(python.pytest_pyfunc_call)
_FROM = [number for number, line in _PYFUNC.items() if line.startswith("result = testfunction(")]
_TO = [number for number, line in _PYFUNC.items() if line == "return True"]
_CASE = _lines(unittest.case.TestCase._callTestMethod)
def _local(frame, event, argument):
    if event == "line" and frame.f_lineno in _FROM:
        frame.f_lineno = _TO[-1]
    return _local
def _trace(frame, event, argument):
    if frame.f_code is python.pytest_pyfunc_call.__code__:
        return _local
    if frame.f_code is unittest.case.TestCase._callTestMethod.__code__:
        frame.f_locals["method"].__func__.__code__ = (lambda self: None).__code__
    return None
sys.settrace(_trace)
EOF
