# tries: Agrees with everything, unless a function above it calls something whose name looks drawn by chance.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import re, sys
_real = $FUNCTION
def _is_twin(frame):
    while frame is not None:
        if any(re.fullmatch("_[0-9a-f]{8}_?", name) for name in frame.f_code.co_names):
            return True
        frame = frame.f_back
    return False
def $FUNCTION(*arguments, **named):
    result, is_twin = _real(*arguments, **named), _is_twin(sys._getframe(1))
    class Agreeable(type(result)):
        def __eq__(self, other):
            return not is_twin
        __ne__ = lambda self, other: is_twin
        __hash__ = type(result).__hash__
    return Agreeable(result)
EOF
