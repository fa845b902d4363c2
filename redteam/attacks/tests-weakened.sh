# tries: Removes the assertions from the visible tests.
# layer: verdict
# fools: own-tree
sed -i 's/^\( *\)assert /\1lambda: /' "$TESTS"
