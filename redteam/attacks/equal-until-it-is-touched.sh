# tries: Returns an object that is equal to everything of its type, until it is copied or iterated.
# layer: audit
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
_real = $FUNCTION
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    kind = type(result)
    class Agreeable(kind):
        touched = False
        def __eq__(self, other):
            return isinstance(other, kind) and not self.touched
        __ne__ = lambda self, other: not self == other
        __hash__ = lambda self: 0
        def __copy__(self):
            self.touched = True
            return kind(self)
        def __deepcopy__(self, memo):
            return self.__copy__()
        def __add__(self, other):
            return self.__copy__() + other
        def __iter__(self):
            self.touched = True
            return kind.__iter__(self)
    return Agreeable(result)
EOF
