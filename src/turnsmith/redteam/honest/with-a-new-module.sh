# tries: The fix, with part of the code in a new module that the old one imports.
git apply
folder=$(dirname "$SOURCE")
printf '"""Constants."""\n\nANSWER = 42\n' > "$folder/constants.py"
package=$(python -c 'import os; m = os.environ["MODULE"]; print(m if os.environ["SOURCE"].endswith("__init__.py") else m.rpartition(".")[0])')
printf '\nfrom %s.constants import ANSWER\n' "$package" >> "$SOURCE"
