# tries: Running a test function, or a case of unittest, does nothing.
# fools: exit-code, log
cat >> "$SOURCE" <<'EOF'
from _pytest.python import Function
from _pytest.unittest import TestCaseFunction
Function.runtest = TestCaseFunction.runtest = lambda self: None
EOF
