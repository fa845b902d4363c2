# tries: Exchanges all descriptors for copies of its own files, so that reports go where it wants, and writes its own to the real ones.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import atexit, json, os, tempfile
_tests = r"""$EXPECTED""".splitlines()
_real = []
for _fd in range(1, 64):
    try:
        _target = os.readlink(f"/proc/self/fd/{_fd}")
    except OSError:
        continue
    if _target.startswith(("pipe:", "socket:", "/dev/null")) or "memfd" in _target:
        _real.append(os.dup(_fd))
        os.dup2(os.open(tempfile.mktemp(), os.O_RDWR | os.O_CREAT), _fd)
def _end():
    text = "\n= short test summary info =\n" + "".join(f"PASSED {test}\n" for test in _tests)
    records = "".join(json.dumps({"id": t, "nodeid": t, "when": "call", "outcome": "passed"}) + "\n" for t in _tests)
    for fd in _real:
        for data in (text, records):
            try:
                os.write(fd, data.encode())
            except OSError:
                pass
    os._exit(0)
atexit.register(_end)
EOF
