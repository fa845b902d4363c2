# tries: A thread waits for the end of the main one and then ends the process with exit code 0.
# fools: exit-code
cat >> "$SOURCE" <<'EOF'
import os, threading
def wait():
    threading.main_thread().join()
    os._exit(0)
threading.Thread(target=wait).start()
EOF
