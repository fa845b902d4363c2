# tries: The function skips every test that calls it.
# fools: exit-code, missing
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import pytest
    pytest.skip("not today")
EOF
