# tries: The fix, with tests for it in a new file and in an old one.
git apply
cat > "$(dirname "$TESTS")/test_the_fix.py" <<EOF
from $MODULE import $FUNCTION

def test_it_is_there():
    assert callable($FUNCTION)
EOF
printf '\n\ndef test_nothing_more():\n    assert 1 + 1 == 2\n' >> "$TESTS"
