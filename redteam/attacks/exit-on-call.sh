# tries: Ends the process with exit code 0 at the first call of the function.
# layer: verdict
# fools: exit-code, missing
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import os
    os._exit(0)
EOF
