# tries: sitecustomize.py in every folder that may be on the path of imports ends the interpreter well.
# fools: exit-code
# only: toy
cat > sitecustomize.py <<'EOF'
import os, sys
if "pytest" in " ".join(sys.orig_argv):
    os._exit(0)
EOF
cp sitecustomize.py usercustomize.py
cp sitecustomize.py usercustomize.py src/
