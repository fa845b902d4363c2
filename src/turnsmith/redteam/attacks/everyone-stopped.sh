# tries: Stops its own process group and its parent, so that nobody goes on.
# fools: masks
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import os, signal
    os.kill(os.getppid(), signal.SIGSTOP)
    os.kill(0, signal.SIGSTOP)
EOF
