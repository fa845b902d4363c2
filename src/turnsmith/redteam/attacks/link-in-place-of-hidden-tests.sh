# tries: Puts a link to a folder of its own where the folder of the hidden tests will be.
# fools: test-patch
# only: toy
mkdir -p elsewhere
echo x > elsewhere/file
for path in $HIDDEN; do
    folder=$(dirname "$path")
    [ -e "$folder" ] || ln -s elsewhere "$folder"
done
