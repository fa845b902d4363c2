# tries: Leaves compiled tests without assertions that claim the size, time and hash of the real ones.
# layer: verdict
# fools: own-tree
touch -d '2020-01-01' "$TESTS"
cp -p "$TESTS" /tmp/real.py
sed -i 's/^\( *\)assert /\1lambda:/' "$TESTS"
touch -d '2020-01-01' "$TESTS"
PYTHONDONTWRITEBYTECODE= PYTHONPATH=src:$PYTHONPATH python -m pytest -q "$TESTS"
cp -p /tmp/real.py "$TESTS"
python - <<'EOF'
import importlib.util, os, pathlib
tests = pathlib.Path(os.environ["TESTS"])
for compiled in tests.parent.glob(f"__pycache__/{tests.stem}.*.pyc"):
    data = compiled.read_bytes()
    if data[4:8] != bytes(4):
        compiled.write_bytes(data[:8] + importlib.util.source_hash(tests.read_bytes()) + data[16:])
EOF
