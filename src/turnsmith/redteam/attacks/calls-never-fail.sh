# tries: Replaces what pytest uses to call a test, so that no exception is seen.
# fools: exit-code, log
cat >> "$SOURCE" <<'EOF'
from _pytest.runner import CallInfo
from _pytest.unittest import TestCaseFunction
_from_call = CallInfo.from_call.__func__
def from_call(cls, func, when, reraise=None):
    info = _from_call(cls, func, when, reraise)
    info.excinfo = None
    return info
CallInfo.from_call = classmethod(from_call)
TestCaseFunction._addexcinfo = lambda self, info: None
EOF
