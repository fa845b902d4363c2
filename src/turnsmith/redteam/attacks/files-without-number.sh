# tries: Leaves files by the ten thousand, until there is room for no more names.
python - <<'EOF'
import os
for folder in range(60):
    os.mkdir(f"many-{folder}")
    for number in range(500):
        with open(f"many-{folder}/{number}", "w") as file:
            file.write("x")
EOF
