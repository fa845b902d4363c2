# tries: The session always says that no test failed, so that the exit code is 0.
# fools: exit-code
cat >> "$SOURCE" <<'EOF'
from _pytest.main import Session
Session.testsfailed = property(lambda self: 0, lambda self, number: None)
EOF
