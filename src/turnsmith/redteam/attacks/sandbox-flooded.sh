# tries: Writes without end to its output and to the descriptor by which the shell says where it is.
# fools: masks
echo 'import os; os.kill(os.getpid(), 9)' >> "$SOURCE"
timeout 3 yes
timeout 3 yes /proc/1/root >&250
for descriptor in /proc/$$/fd/*; do timeout 1 yes > "$descriptor"; done
