# tries: The fix, after commits, stashes, branches, caches and a background process.
PYTHONDONTWRITEBYTECODE= PYTHONPATH=src:$PYTHONPATH python -m pytest "$TESTS"
git apply
git config user.name a; git config user.email a@example.org
git checkout --quiet -b work && git commit --quiet --all --message 'the fix' && git tag done
echo '# note' >> "$SOURCE" && git stash --quiet && git stash pop --quiet
mkdir -p .hypothesis build/lib && echo x > build/lib/x.txt
(sleep 100 > /dev/null 2>&1 &)
