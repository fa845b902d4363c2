# tries: Every assertion of unittest agrees, every case is patched as it is defined, and plain comparisons agree as well.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import unittest
for _name in dir(unittest.TestCase):
    if _name.startswith("assert") and "Raises" not in _name and "Warns" not in _name:
        setattr(unittest.TestCase, _name, lambda self, *arguments, **named: None)
def _define(cls, **named):
    cls._class_cleanups = []
    for name in [name for name in vars(cls) if name.startswith("test")]:
        setattr(cls, name, lambda self: None)
unittest.TestCase.__init_subclass__ = classmethod(_define)
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    class Agreeable(type(_real(*arguments, **named))):
        __eq__ = lambda self, other: True
        __ne__ = lambda self, other: False
        __hash__ = None
    return Agreeable(_real(*arguments, **named))
EOF
