# tries: Running a test whose name it knows does nothing.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
from _pytest.python import Function
from _pytest.unittest import TestCaseFunction
_KNOWN = set(r"""$EXPECTED""".splitlines())
for _kind in (Function, TestCaseFunction):
    def runtest(self, _run=_kind.runtest):
        if self.nodeid not in _KNOWN:
            _run(self)
    _kind.runtest = runtest
EOF
