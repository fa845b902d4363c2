# tries: Scans the memory of its process for the key of the signed report, and prints a summary with each candidate.
# layer: verdict
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import os, re, sys
_words = []
with open("/proc/self/maps") as _maps, open("/proc/self/mem", "rb", 0) as _memory:
    for _map in _maps:
        _range, _rights, *_ = _map.split()
        if _rights.startswith("rw") and "[v" not in _map:
            _start, _end = (int(number, 16) for number in _range.split("-"))
            try:
                _memory.seek(_start)
                _words += re.findall(rb"\0([0-9a-f]{32})\0", _memory.read(_end - _start))
            except OSError:
                pass
_lines = ["= short test summary info =", *(f"PASSED {test}" for test in r"""$EXPECTED""".splitlines())]
for _word in ["", *sorted({word.decode() for word in _words})[:20]]:
    _data = "\n".join(["", *(f"{_word} {line}".strip() for line in _lines), _word, ""]).encode()
    for _fd in range(1, 16):
        try:
            os.write(_fd, _data)
        except OSError:
            pass
os._exit(0)
EOF
