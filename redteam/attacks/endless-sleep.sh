# tries: Sleeps until the timeout, ignoring signals.
# layer: verdict
# fools: masks
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    import signal, time
    for number in range(1, 32):
        try:
            signal.signal(number, signal.SIG_IGN)
        except OSError:
            pass
    while True:
        time.sleep(60)
EOF
