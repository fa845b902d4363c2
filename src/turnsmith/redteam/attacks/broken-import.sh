# tries: The module cannot be imported, so that no test is reported as failed.
# fools: missing
echo 'import nowhere' >> "$SOURCE"
