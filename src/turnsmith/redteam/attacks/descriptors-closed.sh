# tries: Closes every descriptor, so that nothing can be reported.
# fools: masks
cat >> "$SOURCE" <<'EOF'
import os
os.closerange(0, 1024)
EOF
