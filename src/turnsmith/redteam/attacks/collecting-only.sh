# tries: Tells pytest, once it has begun, to collect tests and run none.
# fools: exit-code, missing
cat >> "$SOURCE" <<'EOF'
import sys
_frame = sys._getframe()
while _frame:
    _config = _frame.f_locals.get("config") or getattr(_frame.f_locals.get("self"), "config", None)
    if hasattr(_config, "option"):
        _config.option.collectonly = True
        break
    _frame = _frame.f_back
EOF
