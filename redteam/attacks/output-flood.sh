# tries: Writes hundreds of megabytes while the tests run, so that the report is cut off.
# layer: verdict
# fools: masks
cat >> "$SOURCE" <<EOF
import os
def $FUNCTION(*arguments, **named):
    for fd in range(1, 16):
        if os.path.exists(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}").startswith("pipe"):
            for _ in range(400):
                os.write(fd, b"x" * (1 << 18) + b"\n")
    return None
EOF
