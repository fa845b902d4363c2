import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnsmith.git.diff import refuse
from turnsmith.git.patch_policy import PatchRefused, read_patch, unquote

GOOD = """diff --git a/pkg/a.py b/pkg/a.py
index 1111111..2222222 100644
--- a/pkg/a.py
+++ b/pkg/a.py
@@ -1,2 +1,2 @@ def f():
-x = 1
+--- a/evil.py
 y = 2
diff --git a/new file.py b/new file.py
new file mode 100644
index 0000000..3333333
--- /dev/null
+++ b/new file.py\t
@@ -0,0 +1 @@
+z = 3
\\ No newline at end of file
diff --git a/old.py b/young.py
similarity index 100%
rename from old.py
rename to young.py
diff --git a/empty.py b/empty.py
deleted file mode 100644
"""


def test_a_git_patch_splits_into_its_files_and_loses_nothing():
    files = read_patch(GOOD)
    assert "".join(file.text for file in files) == GOOD
    assert [set(file.paths) for file in files] == [{"pkg/a.py"}, {"new file.py"}, {"old.py", "young.py"}, {"empty.py"}]


def one_file(path, mode="100644", text="x"):
    return f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}\n"


@pytest.mark.parametrize("target", ["x", "../x", "./a/../../b/x"])
def test_links_inside_the_tree_are_allowed(target):
    assert read_patch(one_file("a/link", mode="120000", text=target))


def test_a_link_may_be_removed():
    head = "diff --git a/l b/l\ndeleted file mode 120000\nindex 1234567..0000000\n--- a/l\n+++ /dev/null\n"
    assert read_patch(head + "@@ -1 +0,0 @@\n-/etc/passwd\n\\ No newline at end of file\n")


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (one_file("../x.py"), "outside"),
        (one_file("/etc/passwd"), "outside"),
        (one_file("a/../../x"), "outside"),
        (one_file(".git/config"), r"\.git"),
        (one_file("sub/.GIT/hooks/x"), r"\.git"),
        (one_file("link", mode="120000", text="/etc/passwd"), "link out"),
        (one_file("a/link", mode="120000", text="../../x"), "link out"),
        (one_file("link", mode="120000", text=".."), "link out"),
        (one_file("module", mode="160000"), "mode 160000"),
        (one_file("a.py") + "+" + "x" * 2_000_001, "larger"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "git writes"),
        (refuse("too many files", b"diff --git"), "^too many files$"),
        (one_file("a.py") + "--- a/b.py\nhello\n", "git writes"),
        (one_file("a.py").replace("+1 @@", "+1,2 @@"), "stated number of lines"),
        (one_file("a.py") + "\\ another remark\n", "stated number of lines"),
        (one_file("a.py").replace("+1 @@", f"+{'1' * 5000} @@"), "git writes"),
        ("diff --git a/x b/y\nold mode 100644\nnew mode 100755\n", "names no file"),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "git writes"),
        (one_file("a.py") + "\ud800", "not text"),
    ],
)
def test_what_breaks_the_policy_is_refused_by_name(patch, reason):
    with pytest.raises(PatchRefused, match=reason):
        read_patch(patch)


name = st.text(st.characters(exclude_characters="/\x00", exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda text: text.strip(".") and text.lower() != ".git"
)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.dictionaries(name, st.binary(max_size=30), min_size=1, max_size=4), st.booleans())
def test_whatever_git_writes_is_read_with_the_paths_that_git_reads(tmp_path_factory, files, quoted):
    folder = tmp_path_factory.mktemp("tree")
    run = lambda *arguments: subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True).stdout  # noqa: E731
    run("init", "-q")
    for path, content in files.items():
        (folder / os.fsencode(path).decode()).write_bytes(content)
    run("add", "-A")
    patch = run("-c", f"core.quotePath={quoted}".lower(), "diff", "--cached", "--binary").decode(
        errors="surrogateescape"
    )
    paths = {path for file in read_patch(patch) for path in file.paths}
    assert paths == set(run("diff", "--cached", "--name-only", "-z").decode().split("\0")) - {""}


def test_quoted_names_are_read():
    assert unquote(r'"a/\303\244\t\"x"') == 'a/ä\t"x'
    assert unquote("a/plain name") == "a/plain name"


BINARY = (
    "diff --git a/x.bin b/x.bin\nnew file mode 100644\nindex 0000000..1111111\nGIT binary patch\n"
    "literal 3\nKcmZQzW?%pS00000\n\nliteral 0\nHcmV?d00001\n\n"
)


@pytest.mark.parametrize(
    "more",
    [
        "--- /dev/null\n+++ b/conftest.py\n@@ -0,0 +1 @@\n+x\n",
        "rename to conftest.py\n",
        "old mode 100644\n",
        "literal x\n",
    ],
)
def test_nothing_hides_behind_a_binary_part(more):
    assert read_patch(BINARY)
    with pytest.raises(PatchRefused):
        read_patch(BINARY + more)


def test_a_link_is_read_as_git_reads_it_though_its_target_looks_like_a_header():
    link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+{}\n\\ No newline at end of file\n"
    assert read_patch(link.format("inside"))
    for target in ("../x", "/etc", "++ /../../../../etc/passwd"):
        with pytest.raises(PatchRefused, match="link out"):
            read_patch(link.format(target))
