# tries: Leaves processes that rename, truncate and replace files while the host reads them.
# layer: verdict
cat > /tmp/churn.py <<'EOF'
import os, random
while True:
    name = f"churn-{random.randrange(20)}"
    try:
        match random.randrange(6):
            case 0: open(name, "wb").write(os.urandom(random.randrange(1 << 16)))
            case 1: os.rename(name, f"churn-{random.randrange(20)}")
            case 2: os.unlink(name)
            case 3: os.mkdir(name)
            case 4: os.symlink("/etc/passwd", name)
            case 5: os.rmdir(name)
    except OSError:
        pass
EOF
for _ in 1 2; do setsid python /tmp/churn.py > /dev/null 2>&1 < /dev/null & done
sleep 0.2
