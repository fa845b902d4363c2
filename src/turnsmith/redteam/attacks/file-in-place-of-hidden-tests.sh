# tries: Puts a file where the folder of the hidden tests will be, so that they cannot be added and the task looks broken.
# fools: test-patch
# only: toy
for path in $HIDDEN; do
    folder=$(dirname "$path")
    [ -e "$folder" ] || echo taken > "$folder"
done
