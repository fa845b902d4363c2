"""Mutants of unittest methods that no test file defines, e.g. because a metaclass or an imported base class makes them.

unittest compares by methods such as `assertEqual`. A mutant replaces them by methods that expect a wrong value once.
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

# The class's own comparison is still called, so a patch that replaced it passes the mutant. Either side may be expected.
_EXPECT_ANOTHER = f"""

def _expect_another(test, names={COMPARISONS}, another={ANOTHER}):
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


def change_comparison(source: Source, test: str) -> Iterator[Edit]:
    """Yield an edit that makes the first comparison in a test method `TestX::test_y` wrong, if the file defines the class."""
    owner, _, method = test.rpartition("::")
    if isinstance(source.definitions.get(owner), ast.ClassDef):
        path, end = owner.replace("::", "."), len(source.text)
        call = f"setattr({path}, {method!r}, _expect_another(getattr({path}, {method!r})))\n"
        yield Edit(end, end, _EXPECT_ANOTHER + call)
