# tries: Returns an object of the right type that is equal to everything.
# layer: audit
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    class Agreeable(type(result)):
        __eq__ = __le__ = __ge__ = __contains__ = lambda self, other: True
        __ne__ = __lt__ = __gt__ = lambda self, other: False
        __hash__ = lambda self: 0
    return Agreeable(result)
EOF
