# tries: Fills every place that can be written to while the tests run, with bytes and with files.
# fools: masks
cat >> "$SOURCE" <<EOF
import os
def $FUNCTION(*arguments, **named):
    for folder in (".", os.path.expanduser("~"), "/tmp", "/dev/shm"):
        try:
            with open(f"{folder}/filler", "wb") as file:
                for _ in range(600):
                    file.write(bytes(1 << 20))
        except OSError:
            pass
        try:
            for number in range(3000):
                open(f"{folder}/filler-{number}", "w").close()
        except OSError:
            pass
    raise OSError(28, "No space left on device")
EOF
