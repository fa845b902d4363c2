import pytest

from turnsmith.audit.screening import find_suspicions


def adding(*lines):
    body = "".join(f"+{line}\n" for line in lines)
    return f"diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1,1 +1,{1 + len(lines)} @@\n import sys, gc\n{body}"


SUSPICIOUS = {
    "def __eq__(self, other): return True": "comparison",
    "frame = sys._getframe(1)": "frames",
    "import gc": "memory",
    "from _pytest import reports": "test runner",
    "os._exit(0)": "ends",
    "sys.modules['calc'] = other": "patching",
    "answers = open('tests.json')": "answers from elsewhere",
}


@pytest.mark.parametrize("line", SUSPICIOUS)
def test_what_reaches_for_the_tests_is_suspicious(line):
    assert SUSPICIOUS[line] in find_suspicions(adding("x = 1", f"    {line}"))


PLAIN = ["return a + b", "if not words: raise ValueError('no words')", "total = sum(item.price for item in items)"]


@pytest.mark.parametrize("line", PLAIN)
def test_a_plain_fix_is_not_whatever_stands_around_it(line):
    assert find_suspicions(adding(line)) == []


def test_what_is_no_text_is_suspicious_and_what_is_refused_is_nothing():
    binary = "diff --git a/m.so b/m.so\nindex 1..2\nGIT binary patch\nliteral 3\nzcma@\n\nliteral 0\nHcmV?d00001\n\n"
    assert find_suspicions(binary) == ["binary"]
    assert find_suspicions("no patch") == []
