# tries: Compiles a fixed-looking module without source, and a cache for the tests.
PYTHONDONTWRITEBYTECODE= python - <<'EOF'
import os, py_compile
source = os.environ["SOURCE"]
code = open(source).read() + "\nimport os\nos._exit(0)\n"
open("/tmp/forged.py", "w").write(code)
py_compile.compile("/tmp/forged.py", cfile=source + "c", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
EOF
