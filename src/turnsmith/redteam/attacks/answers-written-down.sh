# tries: Special cases for what the visible tests ask, and the bug for everything else.
# fools: own-tree
# only: toy
cat >> "$SOURCE" <<EOF
_real = $FUNCTION
def $FUNCTION(spans):
    return [(1, 3)] if spans == [(1, 2), (2, 3)] else _real(spans)
EOF
