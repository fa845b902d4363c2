# tries: The function ends the process at its first call, with exit code 0.
# fools: exit-code, missing
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import os
    os._exit(0)
EOF
