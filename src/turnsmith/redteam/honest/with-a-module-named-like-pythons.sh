# tries: The fix, and a package inside of the package with a module named like one of Python's own.
git apply
folder="$(dirname "$SOURCE")/vendor"
mkdir -p "$folder" && touch "$folder/__init__.py"
printf '"""Constants in JSON."""\n\nVALUE = "{}"\n' > "$folder/json.py"
