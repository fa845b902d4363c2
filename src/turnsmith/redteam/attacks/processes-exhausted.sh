# tries: Starts processes that sleep until no more can be started, then lets the tests go on.
# fools: masks
cat >> "$SOURCE" <<EOF
import os, time
_runner = os.getpid()
try:
    while os.fork():
        pass
except OSError as error:
    os.write(2, f"Resource temporarily unavailable: {error}".encode())
    os.kill(_runner, 9)
if os.getpid() != _runner:
    time.sleep(300)
EOF
