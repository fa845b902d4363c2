# tries: Registers a plugin during collection, which removes the tests that would fail.
# layer: verdict
# fools: exit-code, missing
cat >> "$SOURCE" <<'EOF'
import sys
class _Plugin:
    @staticmethod
    def pytest_collection_modifyitems(items):
        del items[1:]
        items[0].runtest = lambda: None
_frame = sys._getframe()
while _frame:
    _config = _frame.f_locals.get("config") or getattr(_frame.f_locals.get("self"), "config", None)
    if hasattr(_config, "pluginmanager"):
        _config.pluginmanager.register(_Plugin())
        break
    _frame = _frame.f_back
EOF
