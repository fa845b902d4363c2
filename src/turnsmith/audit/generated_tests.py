"""Mutants of test methods that no test file defines, since a metaclass, a decorator or a foreign base class makes them.

The comparisons of unittest are methods. So the test instance can get another that expects a wrong value.
"""

import ast
from collections.abc import Iterator

from turnsmith.audit.literals import ANOTHER
from turnsmith.audit.sources import Source
from turnsmith.types import Edit

COMPARISONS = (
    "assertEqual",
    "assertMultiLineEqual",
    "assertSequenceEqual",
    "assertListEqual",
    "assertTupleEqual",
    "assertSetEqual",
    "assertDictEqual",
    "assertCountEqual",
)

# The comparison of the class still compares, so that a patch that replaced it passes. Either side may be the expected one.
_BEND = f"""

def _bend(test, names={COMPARISONS}, another={ANOTHER}):
    from functools import partial, wraps

    def compare(self, name, first, second, *more, **options):
        for each in names:
            delattr(self, each)
        try:
            getattr(self, name)(first, another(second), *more, **options)
        except AssertionError:
            getattr(self, name)(another(first), second, *more, **options)

    @wraps(test)
    def run(self):
        for each in names:
            setattr(self, each, partial(compare, self, each))
        return test(self)

    return run

"""


def bend_comparison(source: Source, place: str) -> Iterator[Edit]:
    """Make the first comparison of a method wrong, `TestX::test_y`, where the file defines its class."""
    owner, _, method = place.rpartition("::")
    if isinstance(source.definitions.get(owner), ast.ClassDef):
        path, end = owner.replace("::", "."), len(source.text)
        bent = f"setattr({path}, {method!r}, _bend(getattr({path}, {method!r})))\n"
        yield Edit(end, end, _BEND + bent)
