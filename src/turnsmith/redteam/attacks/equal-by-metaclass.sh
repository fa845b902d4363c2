# tries: The same, hidden in a metaclass whose instances also claim another class and look right when they are printed.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
class _Meta(type):
    def __call__(cls, result):
        kind = type(result)
        thing = kind.__new__(type(cls)(kind.__name__, (kind,), dict(cls._slots(kind))), result)
        thing.__init__(result)
        return thing
    def _slots(cls, kind):
        yield "__class__", property(lambda self: kind)
        yield "__eq__", lambda self, other: type(other).__mro__[-2:] == kind.__mro__[-2:]
        yield "__ne__", lambda self, other: not self == other
        yield "__hash__", kind.__hash__
class _Agreeable(metaclass=_Meta):
    pass
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    return _Agreeable(_real(*arguments, **named))
EOF
