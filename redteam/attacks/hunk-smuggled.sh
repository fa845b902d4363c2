# tries: Changes lines that look like the head of a patch to the tests, to mislead a parser of patches.
# layer: verdict
cat > notes.txt <<EOF
-- a/notes.txt
++ b/$TESTS
@@ -1,1 +1,1 @@
diff --git a/$TESTS b/$TESTS
EOF
printf 'diff --git a/x b/x\n--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-x\n+y\n' "$TESTS" "$TESTS" > 'a b
c.txt'
printf -- '-- a/%s\n++ b/%s\n' "$TESTS" "$TESTS" >> "$SOURCE.txt"
mkdir -p "b/$TESTS" "a/$TESTS" && echo x > "b/$TESTS/x" && echo x > "x b"
