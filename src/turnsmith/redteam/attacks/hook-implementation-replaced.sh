# tries: Replaces the function inside pytest's own implementation of calling a test.
# fools: exit-code, log
cat >> "$SOURCE" <<'EOF'
import gc
from pluggy import HookImpl
gc.unfreeze()
for _hook in [thing for thing in gc.get_objects() if isinstance(thing, HookImpl)]:
    if _hook.function.__name__ == "pytest_runtest_call" and not (_hook.hookwrapper or _hook.wrapper):
        _hook.function = lambda item: None
EOF
