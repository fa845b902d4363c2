"""Task with one bug, `add` subtracts, with patches of `add` and a provider that counts its sandboxes."""

from turnsmith.errors import SandboxError
from turnsmith.types import Task

BUGGY = "def add(a, b):\n    return a - b\n"
FORGE_REPORTS = [
    "from _pytest.reports import TestReport",
    "make = TestReport.from_item_and_call.__func__",
    "def forge(cls, item, call):",
    "    if NAMES: call.excinfo = None",
    "    return make(cls, item, call)",
    "TestReport.from_item_and_call = classmethod(forge)",
]


def replace_body(*lines, after=()):
    """Make a patch that replaces the body of `add` and appends lines to the module."""
    added = [*(f"    {line}" for line in lines), *after]
    head = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n"
    body = "".join(f"+{line}\n" for line in added)
    return f"{head}@@ -1,2 +1,{1 + len(added)} @@\n def add(a, b):\n-    return a - b\n{body}"


def forge_reports(condition):
    """Make a patch that removes the exceptions of the tests that meet a condition."""
    return replace_body("return 7", after=[line.replace("NAMES", condition) for line in FORGE_REPORTS])


GOLD = replace_body("return a + b")


def make_task(**columns):
    known = {
        "instance_id": "calc-1",
        "repo": "calc",
        "base_commit": "0" * 40,
        "problem_statement": "add is wrong",
        "FAIL_TO_PASS": ["test_calc.py::test_add"],
        "PASS_TO_PASS": ["test_calc.py::test_zero"],
        "patch": GOLD,
        "layers": ["tree"],
    }
    return Task(**known | columns)


def write_layers(folder, tests, source=BUGGY):
    (folder / "tree").mkdir()
    (folder / "tree/calc.py").write_text(source)
    (folder / "tree/test_calc.py").write_text(tests)
    return (folder / "tree",)


class CountingProvider:
    """Provider that counts the sandboxes it starts; the first `faults` starts fail."""

    isolation = "none"

    def __init__(self, provider, faults=0):
        self.provider, self.faults, self.num_started = provider, faults, 0

    async def start(self, spec):
        self.num_started += 1
        if self.num_started <= self.faults:
            raise SandboxError("no room")
        return await self.provider.start(spec)
