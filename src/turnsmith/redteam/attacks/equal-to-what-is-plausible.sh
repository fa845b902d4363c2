# tries: Returns an object that is equal to whatever has the same type and nearly the same length.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    class Agreeable(type(result)):
        def __eq__(self, other):
            return isinstance(other, type(result)) and abs(len(repr(other)) - len(repr(result))) < 20
        __ne__ = lambda self, other: not self == other
        __hash__ = lambda self: 0
    return Agreeable(result)
EOF
