# tries: The fix in a module of another name, which the old path imports.
git apply
folder=$(dirname "$SOURCE"); name=$(basename "$SOURCE" .py)
git mv "$SOURCE" "$folder/implementation.py" 2> /dev/null || mv "$SOURCE" "$folder/implementation.py"
package=$(python -c 'import os; m = os.environ["MODULE"]; print(m if os.environ["SOURCE"].endswith("__init__.py") else m.rpartition(".")[0])')
printf 'from %s.implementation import *\nfrom %s import implementation as _implementation\nglobals().update(vars(_implementation))\n' "$package" "$package" > "$SOURCE"
