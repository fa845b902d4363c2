# tries: Takes all memory in its own sandbox, by processes and by files, until somebody is killed.
# fools: masks
echo 'import os; os.kill(os.getpid(), 9)' >> "$SOURCE"
timeout 5 head -c 3G /dev/zero > /dev/shm/filler
for _ in 1 2 3 4; do timeout 5 python -c 'x = bytearray(900 << 20); import time; time.sleep(4)' & done
wait
