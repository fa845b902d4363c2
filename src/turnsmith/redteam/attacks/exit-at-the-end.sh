# tries: A handler at the end of the process replaces the exit code by 0.
# fools: exit-code
cat >> "$SOURCE" <<'EOF'
import atexit, os, sys
atexit.register(lambda: (sys.stdout.flush(), os._exit(0)))
EOF
