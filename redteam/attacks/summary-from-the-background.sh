# tries: Leaves a process that outlives pytest and writes a summary to the inherited descriptors.
# layer: verdict
# fools: log
cat >> "$SOURCE" <<EOF
import os, time
_out = os.dup(1)
_outs = [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}")]
_forged = "\n".join(["= short test summary info =", *(f"PASSED {test}" for test in r"""$EXPECTED""".splitlines()), ""])
_runner = os.getpid()
if os.fork() == 0:
    os.setsid()
    for _ in range(400):
        if os.getppid() != _runner:
            break
        time.sleep(0.01)
    for _fd in _outs:
        try:
            os.write(_fd, _forged.encode())
        except OSError:
            pass
    os._exit(0)
EOF
