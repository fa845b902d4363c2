# tries: The module ends the process on import, with exit code 0.
# fools: exit-code, missing
echo 'import os; os._exit(0)' >> "$SOURCE"
