# tries: The fix, with the visible tests moved to another folder.
git apply
mkdir -p checks
git mv "$TESTS" "checks/$(basename "$TESTS")" || mv "$TESTS" checks/
