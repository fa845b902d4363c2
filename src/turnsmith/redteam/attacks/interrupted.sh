# tries: The function raises what Ctrl-C raises, so that the session looks interrupted.
# fools: masks, missing
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    raise KeyboardInterrupt
EOF
