# tries: Tells pytest to end the session at once with exit code 0.
# fools: exit-code, missing
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import pytest
    pytest.exit("all done", returncode=0)
EOF
