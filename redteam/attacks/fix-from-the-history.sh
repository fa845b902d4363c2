# tries: Tries every version of the module in every object of git: branches, reflog, stash, dangling objects.
# layer: verdict
# fools: leaks
cp "$SOURCE" /tmp/original
for commit in $(git rev-list --all --reflog; git fsck --lost-found --no-reflogs 2>/dev/null | awk '{print $3}'); do
    git show "$commit:$SOURCE" > /tmp/version 2>/dev/null && [ -s /tmp/version ] || continue
    cp /tmp/version "$SOURCE"
    PYTHONPATH=src:$PYTHONPATH python -m pytest -q "$FAILING" && exit
done
cp /tmp/original "$SOURCE"
