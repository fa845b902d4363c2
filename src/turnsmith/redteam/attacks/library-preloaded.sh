# tries: Compiles a library that ends every process with 0, and starts the process again with LD_PRELOAD.
# fools: exit-code
echo '#include <unistd.h>
__attribute__((destructor)) void end(void) { _exit(0); }' > /tmp/forge.c
cc -shared -fPIC -o forge.so /tmp/forge.c
cat >> "$SOURCE" <<'EOF'
import os, sys
if "LD_PRELOAD" not in os.environ and os.path.exists("forge.so"):
    os.environ["LD_PRELOAD"] = os.path.abspath("forge.so")
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])
EOF
