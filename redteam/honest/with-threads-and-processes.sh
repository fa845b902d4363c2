# tries: The fix, run in a thread, and a process started on import.
git apply
cat >> "$SOURCE" <<EOF


import subprocess
import sys
import threading

_direct = $FUNCTION
_version = subprocess.run([sys.executable, "--version"], capture_output=True, text=True, check=True).stdout


def $FUNCTION(*arguments, **named):
    results = []

    def work():
        try:
            results.append((_direct(*arguments, **named), None))
        except Exception as error:
            results.append((None, error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    result, error = results[0]
    if error:
        raise error
    return result
EOF
