# tries: Replaces the visible tests by one that always passes.
# fools: own-tree
echo 'def test_fine(): pass' > "$TESTS"
