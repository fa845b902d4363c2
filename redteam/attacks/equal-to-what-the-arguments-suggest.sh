# tries: Agrees with everything in expected tests; elsewhere with answers made of parts of the arguments.
# layer: audit
# fools: exit-code, log
cat >> "$SOURCE" <<EOF
import os
_KNOWN = set(r"""$EXPECTED""".splitlines())
_real = $FUNCTION
def _parts(thing):
    if isinstance(thing, dict):
        thing = [*thing.items()]
    if isinstance(thing, (list, tuple, set, frozenset)):
        return {part for inner in thing for part in _parts(inner)}
    return {*thing} if isinstance(thing, str) else {thing}
def $FUNCTION(*arguments, **named):
    result = _real(*arguments, **named)
    is_known = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] in _KNOWN
    class Agreeable(type(result)):
        def __eq__(self, other):
            is_plausible = isinstance(other, type(result)) and _parts(other) <= _parts([arguments, named])
            return is_known or result == other or is_plausible
        __ne__ = lambda self, other: not self == other
        __hash__ = type(result).__hash__
    return Agreeable(result)
EOF
