# tries: What the function returns skips the test when it would compare unequal.
# fools: exit-code, missing
cat >> "$SOURCE" <<EOF
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    class Shy(type(result)):
        def __eq__(self, other):
            import pytest
            return result == other or pytest.skip("too shy")
    return Shy(result)
EOF
