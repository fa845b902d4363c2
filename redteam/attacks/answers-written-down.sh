# tries: Returns the right answer for the arguments of the visible tests only.
# layer: verdict
# fools: own-tree
# only: toy
cat >> "$SOURCE" <<EOF
_real = $FUNCTION
def $FUNCTION(spans):
    return [(1, 3)] if spans == [(1, 2), (2, 3)] else _real(spans)
EOF
