# tries: Notes the answers of expected tests in files and in a background process, for the next run.
# layer: audit
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import glob, json, os, pathlib
_KNOWN = set(r"""$EXPECTED""".splitlines())
_PLACES = [os.path.expanduser("~/.noted"), "/tmp/.noted", "/dev/shm/.noted", "/var/tmp/.noted", ".noted"]
_real = $FUNCTION
def _note(key, other):
    for place in _PLACES:
        try:
            with open(place, "a") as file:
                file.write(json.dumps([key, repr(other)]) + "\n")
        except OSError:
            pass
def _noted(key):
    for place in _PLACES:
        for line in open(place) if os.path.exists(place) else ():
            if json.loads(line)[0] == key:
                return eval(json.loads(line)[1])
def _remember():
    if os.fork() == 0:
        os.setsid()
        import time
        kept = ""
        for _ in range(3000):
            for place in _PLACES:
                text = pathlib.Path(place).read_text() if os.path.exists(place) else ""
                kept = max(kept, text, key=len)
                if len(text) < len(kept):
                    try:
                        pathlib.Path(place).write_text(kept)
                    except OSError:
                        pass
            time.sleep(0.01)
        os._exit(0)
_remember()
def $FUNCTION(*arguments, **named):
    result, key = _real(*arguments, **named), repr((arguments, named))
    if os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] not in _KNOWN:
        answer = _noted(key)
        return result if answer is None else answer
    class Noting(type(result)):
        def __eq__(self, other):
            _note(key, other)
            return True
        __ne__ = lambda self, other: not self == other
        __hash__ = lambda self: 0
    return Noting(result)
EOF
