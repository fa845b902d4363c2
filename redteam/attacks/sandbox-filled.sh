# tries: Fills the disk of the agent's sandbox with bytes and with files, so that no patch can be computed.
# layer: verdict
# fools: masks
echo 'import os; os.kill(os.getpid(), 9)' >> "$SOURCE"
timeout 10 dd if=/dev/zero of=filler.bin bs=1M
timeout 10 dd if=/dev/zero of=/tmp/filler.bin bs=1M
timeout 5 bash -c 'number=0; while : > "/tmp/name-$number"; do number=$((number + 1)); done'
