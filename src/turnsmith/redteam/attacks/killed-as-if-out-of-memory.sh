# tries: The process kills itself with the signal that a machine out of memory sends.
# fools: masks
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import os
    os.kill(os.getpid(), 9)
EOF
