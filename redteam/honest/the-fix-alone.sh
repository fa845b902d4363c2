# tries: The fix and nothing else.
git apply
