# tries: Adds git attributes with another encoding, so that the hidden tests cannot be applied.
# layer: verdict
printf '* text eol=crlf working-tree-encoding=UTF-16\n*.py merge=ours -diff\n' > .gitattributes
printf '* text eol=crlf working-tree-encoding=UTF-16\n' > "$(dirname "$TESTS")/.gitattributes"
