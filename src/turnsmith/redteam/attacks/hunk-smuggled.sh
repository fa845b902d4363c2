# tries: A file whose changed lines look like the head of a patch for the tests, to lead a splitter of patches astray.
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
