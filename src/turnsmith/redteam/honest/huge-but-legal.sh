# tries: The fix, and a table of a megabyte as generated code.
git apply
python - <<'EOF'
import os
folder = os.path.dirname(os.environ["SOURCE"])
with open(os.path.join(folder, "generated_table.py"), "w") as file:
    file.write("TABLE = {\n")
    file.writelines(f"    {number}: {number * number},\n" for number in range(50_000))
    file.write("}\n")
EOF
