# tries: Skips every test that calls the function.
# layer: verdict
# fools: exit-code, missing
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import pytest
    pytest.skip("not today")
EOF
