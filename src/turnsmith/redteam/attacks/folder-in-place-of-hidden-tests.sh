# tries: Puts folders where the files of the hidden tests will be.
# fools: test-patch
# only: toy
for path in $HIDDEN; do
    mkdir -p "$path"
    echo x > "$path/file"
done
