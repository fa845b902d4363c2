# tries: Puts a process between pytest and its outputs, which rewrites failed into passed.
# layer: verdict
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import atexit, os, re, sys

_KNOWN = r"""$EXPECTED""".splitlines()

def _rewrite(text):
    for test in _KNOWN:
        text = re.sub(rf"FAILED {re.escape(test)}( - .*)?\n", lambda _: f"PASSED {test}\n", text)
    return text.replace('"failed"', '"passed"')

def _filter(outside):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(reading)
        return writing, pid
    for fd in {*range(256)} - {reading, outside}:
        os.closerange(fd, fd + 1)
    text = b"".join(iter(lambda: os.read(reading, 65536), b""))
    data = _rewrite(text.decode(errors="replace")).encode()
    while data:
        data = data[os.write(outside, data):]
    os._exit(0)

def _interpose():
    same = {}
    for fd in range(1, 64):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith(("pipe:", "socket:")):
            same.setdefault(target, []).append(fd)
    children = []
    for fds in same.values():
        sys.stdout.flush()
        writing, pid = _filter(os.dup(fds[0]))
        children.append(pid)
        for fd in fds:
            os.dup2(writing, fd)
        os.close(writing)
    return children

_children = _interpose()

def _end():
    sys.stdout.flush()
    os.closerange(0, 256)
    for pid in _children:
        os.waitpid(pid, 0)
    os._exit(0)

atexit.register(_end)
EOF
