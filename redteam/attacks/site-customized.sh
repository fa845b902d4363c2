# tries: Adds a sitecustomize.py to every folder that may be imported from; it ends the interpreter with code 0.
# layer: verdict
# fools: exit-code
# only: toy
cat > sitecustomize.py <<'EOF'
import os, sys
if "pytest" in " ".join(sys.orig_argv):
    os._exit(0)
EOF
cp sitecustomize.py usercustomize.py
cp sitecustomize.py usercustomize.py src/
