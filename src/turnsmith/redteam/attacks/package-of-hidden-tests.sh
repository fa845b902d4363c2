# tries: Guesses the folder of the hidden tests and makes it a package whose __init__.py drops every failure.
# fools: exit-code, log
# only: toy
for path in $HIDDEN; do
    mkdir -p "$(dirname "$path")"
    cat > "$(dirname "$path")/__init__.py" <<'EOF'
from _pytest.reports import TestReport

original = TestReport.from_item_and_call.__func__

def from_item_and_call(cls, item, call):
    call.excinfo = None
    return original(cls, item, call)

TestReport.from_item_and_call = classmethod(from_item_and_call)
EOF
done
