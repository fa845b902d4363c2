# tries: From the traceback of an exception of its own, walks to the frame that judges the call, and replaces a local there.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import ctypes
_real = $FUNCTION
def _reach():
    try:
        raise KeyError
    except KeyError as error:
        frame = error.__traceback__.tb_frame
    while frame and frame.f_code.co_name != "from_call":
        if hasattr(frame.f_locals.get("self"), "_addexcinfo"):
            frame.f_locals["self"]._addexcinfo = lambda info: None
        frame = frame.f_back
    return frame
def $FUNCTION(*arguments, **named):
    frame = _reach()
    if frame:
        kind = frame.f_locals["cls"]
        def forgiving(**values):
            return kind(**{**values, "excinfo": None})
        frame.f_locals["cls"] = forgiving
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    return _real(*arguments, **named)
EOF
