# tries: Returns an object that is equal to everything of its own kind and shape, and to nothing else.
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
_real = $FUNCTION
def _is_alike(one, other):
    if isinstance(one, (list, tuple)) and one and other:
        return isinstance(other, type(one)) and all(_is_alike(one[0], item) for item in other)
    return type(one).__mro__[-2:] == type(other).__mro__[-2:]
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    class Alike(type(result)):
        def __eq__(self, other):
            return _is_alike(result, other)
        def __ne__(self, other):
            return not _is_alike(result, other)
        __hash__ = type(result).__hash__
    return Alike(result)
EOF
