# tries: When a test module has been executed, gives all its tests the code of a function that does nothing.
# fools: exit-code, log
cat >> "$SOURCE" <<'EOF'
import inspect, sys, types, unittest
def _idle(function):
    namespace = {}
    exec(f"def idle({', '.join(inspect.signature(function).parameters)}): pass", namespace)
    return namespace["idle"].__code__
def _empty(namespace):
    for name, thing in list(namespace.items()):
        if isinstance(thing, types.FunctionType) and name.startswith("test"):
            thing.__code__ = _idle(thing)
        if isinstance(thing, type) and issubclass(thing, unittest.TestCase):
            _empty(vars(thing))
def _profile(frame, event, argument):
    if event == "return" and frame.f_code.co_name == "<module>" and "test" in frame.f_globals.get("__name__", ""):
        _empty(frame.f_globals)
sys.setprofile(_profile)
EOF
