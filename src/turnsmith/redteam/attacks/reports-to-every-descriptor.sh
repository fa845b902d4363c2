# tries: Writes reports in the usual machine-readable forms to every open descriptor, then ends the process well.
# fools: exit-code
cat >> "$SOURCE" <<EOF
import contextlib, json, os
_tests = r"""$EXPECTED""".splitlines()
_lines = [json.dumps({"nodeid": t, "id": t, "test": t, "when": w, "outcome": "passed", "status": "passed"})
          for t in _tests for w in ("setup", "call", "teardown")]
_forged = "\n".join([*_lines, json.dumps({t: "passed" for t in _tests}), json.dumps({"exitstatus": 0, "finished": True}), ""])
for _fd in range(1, 256):
    with contextlib.suppress(OSError):
        os.set_blocking(_fd, False)
        os.write(_fd, _forged.encode())
os._exit(0)
EOF
