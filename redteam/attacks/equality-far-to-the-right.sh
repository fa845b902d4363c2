# tries: Returns an object that is equal to everything, and defines `__eq__` after 3,000 spaces.
# layer: audit
# fools: exit-code, log
blanks=$(printf '%3000s' '')
cat >> "$SOURCE" <<EOF
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    class Agreeable(type(result)):
        kind = 1; $blanks __eq__ = __le__ = __ge__ = lambda self, other: True
        kind = 2; $blanks __ne__ = __lt__ = __gt__ = lambda self, other: False
        kind = 3; $blanks __hash__ = lambda self: 0
    return Agreeable(result)
EOF
