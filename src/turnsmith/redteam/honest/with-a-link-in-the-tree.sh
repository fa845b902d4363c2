# tries: The fix, and symbolic links to files and folders inside the tree.
git apply
ln -s "$SOURCE" current.py
mkdir -p docs && ln -s "../$(dirname "$SOURCE")" docs/code
