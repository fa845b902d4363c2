# tries: The function declares each test that calls it an expected failure.
# fools: exit-code, missing
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import pytest
    pytest.xfail("known")
EOF
