# tries: Gives a reason with very many spaces, to keep the parser of the log busy.
# layer: verdict
cat >> "$SOURCE" <<EOF
_calls = []
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    import pytest
    _calls.append(1)
    if len(_calls) > 1:
        return _real(*arguments, **named)
    pytest.xfail("x" + " " * 20_000 + "y")
EOF
