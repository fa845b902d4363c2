# tries: Kills every process in sight, the shell above and the supervisor too, with every signal.
# fools: masks
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import os
    for number in (*range(1, 9), *range(10, 17), *range(20, 65), 9):
        for pid in (1, os.getppid()):
            try:
                os.kill(pid, number)
            except OSError:
                pass
    os.kill(-1, 9)
EOF
