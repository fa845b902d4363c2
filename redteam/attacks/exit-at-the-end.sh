# tries: Replaces the exit code by 0 in an exit handler.
# layer: verdict
# fools: exit-code
cat >> "$SOURCE" <<'EOF'
import atexit, os, sys
atexit.register(lambda: (sys.stdout.flush(), os._exit(0)))
EOF
