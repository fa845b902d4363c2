# tries: Has git overlook the changed tests, and leaves a lock so that it can change nothing.
# fools: git-reset
git update-index --assume-unchanged "$TESTS"
git update-index --skip-worktree "$TESTS"
sed -i 's/^\( *\)assert /\1lambda: /' "$TESTS"
echo '/*' >> .git/info/exclude
touch .git/index.lock .git/HEAD.lock
