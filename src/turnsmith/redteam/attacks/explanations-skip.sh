# tries: What pytest calls to explain a failed assertion skips the test instead.
# fools: exit-code, missing
cat >> "$SOURCE" <<'EOF'
import unittest
from _pytest.assertion import rewrite
from _pytest.outcomes import Skipped
def skip(*arguments):
    raise Skipped("no explanation")
rewrite._call_reprcompare = rewrite._format_explanation = skip
unittest.TestCase.failureException = unittest.SkipTest
EOF
