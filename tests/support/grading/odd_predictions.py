"""Predictions of many kinds for one small repository: kind → patch."""

import difflib
import hashlib
import re

SHOP = '''"""A shop."""


def double(x):
    return x


def price(x):
    tax = 2
    total = x + tax
    rounded = round(total, 2)
    return rounded


def greet(name):
    return "hello " + name
'''
OLD_SHOP = SHOP.replace("tax = 2", "tax = 3").replace("hello", "good day")
WINDOWS = "def answer():\r\n    x = 1\r\n    return x\r\n"
TESTS = (
    "from shop import double, price\nimport windows\n\ndef test_two(): assert double(2) == 4\n\n"
    "def test_zero(): assert double(0) == 0\n\ndef test_price(): assert price(1) == 3\n"
)
TREE = {
    "shop.py": SHOP,
    "old/shop.py": OLD_SHOP,
    "windows.py": WINDOWS,
    "test_shop.py": TESTS,
    "notes.txt": "1\n2\n3\n",
}
FAIL_TO_PASS, PASS_TO_PASS = ["test_shop.py::test_two"], ["test_shop.py::test_zero", "test_shop.py::test_price"]


def to_diff(path, before, after, num_context=3):
    """Return a diff with `---` and `+++` lines only."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", n=num_context))


def to_patch(path, before, after, **options):
    return f"diff --git a/{path} b/{path}\n{to_diff(path, before, after, **options)}"


def edit(old, new):
    return to_patch("shop.py", SHOP, SHOP.replace(old, new))


def add_file(path, *lines, mode=100644):
    body = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n{body}"


def hash_blob(text):
    return hashlib.sha1(b"blob %d\0%s" % (len(text.encode()), text.encode())).hexdigest()


def make_three_way(old, new):
    """Return a patch against another version of the file, which git knows, with a context that does not match."""
    ours, theirs = OLD_SHOP, OLD_SHOP.replace(old, new)
    head = f"diff --git a/shop.py b/shop.py\nindex {hash_blob(ours)}..{hash_blob(theirs)} 100644\n"
    return head + to_diff("shop.py", ours, theirs, num_context=20)


BODY = "    return x\n\n\ndef price"
FIXED = "    return 2 * x\n\n\ndef price"
GOLD = edit(BODY, FIXED)
HEADERS_ONLY = GOLD.partition("\n")[2]
FUZZY = GOLD.replace(" def double(x):\n", " def double(y):\n")
MAIL = "From 1 Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nSubject: [PATCH] Double\n\n---\n shop.py | 2 +-\n\n"
BINARY = "GIT binary patch\nliteral 4\nLcmZQzWMT#Y01f~L\n\nliteral 0\nHcmV?d00001\n\n"
SKIPS = edit(BODY, FIXED.replace("return 2 * x", "import pytest; pytest.skip()"))
KINDS = {
    "resolved": GOLD,
    "resolved, two files": GOLD + to_patch("notes.txt", "1\n2\n3\n", "1\n2\n4\n"),
    "resolved, a new file": GOLD + add_file("extra.py", "x = 1"),
    "resolved, letters beyond ASCII": edit(BODY, FIXED.replace("2 * x", "2 * x  # × é 日本")),
    "resolved, a rename": GOLD
    + "diff --git a/notes.txt b/n.txt\nsimilarity index 100%\nrename from notes.txt\nrename to n.txt\n",
    "resolved, a mode": GOLD + "diff --git a/notes.txt b/notes.txt\nold mode 100644\nnew mode 100755\n",
    "resolved, a link": GOLD + add_file("link", "notes.txt", mode=120000) + "\\ No newline at end of file\n",
    "unresolved": edit(BODY, FIXED.replace("2 * x", "x + 1")),
    "unresolved, a comment": edit(BODY, BODY.replace("return x", "return x  # fixed")),
    "unresolved, breaks another test": GOLD + "".join(edit("tax = 2", "tax = 3").partition("--- ")[1:]),
    "unresolved, a mode alone": "diff --git a/notes.txt b/notes.txt\nold mode 100644\nnew mode 100755\n",
    "unresolved, the file is deleted": to_patch("shop.py", SHOP, "").replace("+++ b/shop.py", "+++ /dev/null"),
    "unresolved, does not parse": edit(BODY, FIXED.replace("return 2 * x", "return 2 *")),
    "unresolved, imports nothing": edit(BODY, FIXED.replace("return 2", "import nowhere; return 2"))
    + "".join(edit('"""A shop."""', "import nowhere").partition("--- ")[1:]),
    "ends the process": edit('"""A shop."""', "import os; os._exit(0)"),
    "endless": edit(BODY, FIXED.replace("return 2 * x", "while True: pass")),
    "tests alone": to_patch("test_shop.py", TESTS, TESTS.replace("double(2) == 4", "double(2) == 2")),
    "tests, too": GOLD + to_patch("test_shop.py", TESTS, TESTS.replace("double(2) == 4", "double(3) == 6")),
    "tests that do not apply": GOLD + to_patch("test_shop.py", "a\nb\nc\n", "a\nd\nc\n"),
    "empty": "",
    "none": None,
    "blanks": "  \n",
    "a line end": "\n",
    "prose": "I fixed the bug by doubling x.\n",
    "headers only": HEADERS_ONLY,
    "headers only, with times": re.sub(
        r"^([-+]{3} \S+)$", r"\1\t2024-01-01 00:00:00", HEADERS_ONLY, count=2, flags=re.M
    ),
    "headers only, without a prefix": HEADERS_ONLY.replace("a/", "").replace("b/", ""),
    "headers only, does not apply": HEADERS_ONLY.replace("return x", "return y"),
    "in a fence": f"Here is my patch:\n\n```diff\n{GOLD}```\n",
    "as a mail": f"{MAIL}{GOLD}-- \n2.39.5\n\n",
    "no last line end": GOLD.removesuffix("\n"),
    "blank lines before it": "\n\n" + GOLD,
    "blank lines without their blank": re.sub("^ $", "", GOLD, flags=re.M),
    "Windows": GOLD.replace("\n", "\r\n"),
    "Windows, on such a file": to_patch("windows.py", WINDOWS, WINDOWS.replace("1", "2")),
    "Windows, headers too, on such a file": to_patch("windows.py", WINDOWS, WINDOWS.replace("1", "2"))
    .replace("\r\n", "\n")
    .replace("\n", "\r\n"),
    "Unix, on a file of Windows": to_patch("windows.py", WINDOWS, WINDOWS.replace("1", "2")).replace("\r\n", "\n"),
    "fuzz": FUZZY,
    "fuzz, headers only": FUZZY.partition("\n")[2],
    "fuzz of two lines": FUZZY.replace('"""A shop."""', '"""A store."""').replace(
        " def price(x):\n", " def cost(x):\n"
    ),
    "at another line": re.sub(r"@@ -\d+,(\d+) \+\d+,", r"@@ -40,\1 +40,", GOLD),
    "a hunk of another length": re.sub(r"@@ -(\d+),\d+ \+(\d+),\d+", r"@@ -\1,9 +\2,9", GOLD),
    "a hunk without numbers": re.sub("@@ .* @@", "@@ @@", GOLD),
    "does not apply": GOLD.replace("return x", "return z").replace("def ", "fed "),
    "in the tree already": to_patch("shop.py", SHOP.replace("return x", "return 0"), SHOP),
    "a three-way merge": make_three_way(BODY, FIXED),
    "a three-way merge with a conflict": make_three_way("tax = 3", "tax = 4"),
    "a file that is there already": add_file("shop.py", "x = 1"),
    "a file that is not there": to_patch("nowhere.py", "a\n", "b\n"),
    "outside of the tree": add_file("../x.py", "x = 1"),
    "in .git": add_file(".git/hooks/x", "x = 1"),
    "binary": GOLD + f"diff --git a/x.bin b/x.bin\nnew file mode 100644\nindex {'0' * 40}..{'1' * 40}\n{BINARY}",
    "binary without its content": "diff --git a/x.bin b/x.bin\nnew file mode 100644\nBinary files /dev/null and b/x.bin differ\n",
    "a submodule": GOLD + add_file("sub", f"Subproject commit {'1' * 40}", mode=160000),
    "no text": GOLD.replace("2 * x", "2 * x  # \ud800"),
}
