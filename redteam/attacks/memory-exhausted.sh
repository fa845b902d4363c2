# tries: Takes all memory while the tests run.
# layer: verdict
# fools: masks
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import mmap, os
    kept = []
    for _ in range(8):
        if os.fork() == 0:
            break
    for _ in range(64):
        area = mmap.mmap(-1, 64 << 20)
        for page in range(0, len(area), 4096):
            area[page] = 1
        kept.append(area)
    os.kill(os.getpid(), 9)
EOF
