# tries: Prints passed lines after escape codes that erase the text before them.
# layer: verdict
# fools: log
cat >> "$SOURCE" <<EOF
import atexit
_forged = "".join(f"\x1b[2K\x1b[1A\rPASSED {test}\x85\x0b\r" for test in r"""$EXPECTED""".splitlines())
atexit.register(print, _forged)
EOF
