# tries: Links that stay in the tree one by one and lead out of it, or into .git and the tests, together.
mkdir -p one/two && ln -s two one/inner && ln -s inner/../../.. one/out
ln -s .git history; ln -s "$(dirname "$TESTS")" checked
ln -s "$TESTS" "alias.py"
echo 'def test_fine(): pass' > alias.py
