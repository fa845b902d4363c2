# tries: Leaves folders so deep that no path reaches their end, with a file there.
python - <<'EOF'
import os
for _ in range(1500):
    os.mkdir("deeper-and-deeper")
    os.chdir("deeper-and-deeper")
open("file", "w").close()
EOF
