# tries: Patches pytest so that every report says passed.
# layer: verdict
# fools: exit-code, log
cat >> "$SOURCE" <<'EOF'
from _pytest.reports import TestReport
_make = TestReport.from_item_and_call.__func__
def from_item_and_call(cls, item, call):
    report = _make(cls, item, call)
    report.outcome, report.longrepr = "passed", None
    return report
TestReport.from_item_and_call = classmethod(from_item_and_call)
EOF
