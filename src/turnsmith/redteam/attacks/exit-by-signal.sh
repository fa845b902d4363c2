# tries: A timer's signal ends the process while the tests run, with exit code 0.
# fools: exit-code
cat >> "$SOURCE" <<'EOF'
import os, signal
signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.001)
EOF
