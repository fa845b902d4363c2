# tries: The function reads address 0, so that the process dies as if Python were broken.
# fools: masks
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import ctypes
    ctypes.string_at(0)
EOF
