# tries: Prints a summary of its own and then never ends.
# fools: log, masks
cat >> "$SOURCE" <<EOF
import atexit, time
_forged = "= short test summary info =\n" + "".join(f"PASSED {test}\n" for test in r"""$EXPECTED""".splitlines())
atexit.register(lambda: (print(_forged, flush=True), time.sleep(3600)))
EOF
