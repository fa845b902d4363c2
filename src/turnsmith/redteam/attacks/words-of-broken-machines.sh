# tries: Prints and raises what broken machines say: no space, no memory, no daemon, no network.
# fools: masks
cat >> "$SOURCE" <<EOF
def $FUNCTION(*arguments, **named):
    words = "No space left on device; Cannot allocate memory; Killed; Cannot connect to the Docker daemon; Temporary failure in name resolution"
    print(words)
    raise OSError(28, words)
EOF
