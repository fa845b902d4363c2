import pytest

from turnsmith.git.patch_policy import read_patch
from turnsmith.grading.patch_selection import FileClass, Project, classify, select_files

EXAMPLES = {
    FileClass.TEST_INFRASTRUCTURE: [
        "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml",
        "noxfile.py", "sitecustomize.py", "usercustomize.py", "a.pth", "x-1.dist-info/entry_points.txt",
        "x.egg-info/entry_points.txt", "x.egg-link", "tests/conftest.py", "x.DIST-INFO/entry_points.txt", "x.EGG-INFO/x",
    ],
    FileClass.TEST_SURFACE: [
        "test_a.py", "a_test.py", "test/x.py", "tests/x.py", "test/data/x.json", "tests/data/x.json",
    ],
    FileClass.GENERATED: ["a.pyc", "a.pyo", "__pycache__/a.cpython-311.pyc", "__pycache__/x", ".hypothesis/x", ".coverage"],
    FileClass.SOURCE: ["setup.py", "Makefile", "requirements.txt", "poetry.lock",
        "pkg/core.py", "pkg/testing.py", "attest/a.py", "contest.py", "docs/tests.md", "pth", "dist-info.py"],
}  # fmt: skip


@pytest.mark.parametrize("folder", ["", "src/deep/"])
@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in EXAMPLES.items() for path in paths])
def test_path_is_classified_by_name_in_any_folder(folder, kind, path):
    assert classify(folder + path) is kind


def test_given_test_files_are_test_surface_under_any_name():
    assert classify("pkg/checks.py", {"pkg/checks.py"}) is FileClass.TEST_SURFACE
    assert classify("checks.py", {"pkg/checks.py"}) is FileClass.SOURCE


@pytest.mark.parametrize("path", ["accept", "accept/checks.py/x", "accept/checks.py"])
def test_path_in_place_of_a_test_is_test_surface(path):
    assert classify(path, {"accept/checks.py"}) is FileClass.TEST_SURFACE
    assert classify("accept/other.py", {"accept/checks.py"}) is FileClass.SOURCE


def new_file(path):
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"


def test_files_that_decide_how_tests_run_are_left_out_by_class(tmp_path):
    paths = ["pkg/core.py", "conftest.py", "json.py", "tests/test_a.py", "pkg/a.pyc", "setup.py"]
    selection = select_files("".join(map(new_file, paths)), Project((tmp_path,), frozenset({"tests/test_a.py"})))
    assert {path for file in read_patch(selection.patch) for path in file.paths} == {"pkg/core.py", "setup.py"}
    assert selection.dropped == {"test-surface": 1, "test-infrastructure": 2, "generated": 1}


def test_rename_has_the_class_with_precedence(tmp_path):
    rename = "diff --git a/pkg/a.py b/conftest.py\nsimilarity index 100%\nrename from pkg/a.py\nrename to conftest.py\n"
    assert select_files(rename, Project((tmp_path,), frozenset())).dropped == {"test-infrastructure": 1}


def test_file_of_the_fix_in_a_test_folder_is_source_unless_it_is_a_test(tmp_path):
    fixed = frozenset({"django/test/utils.py", "conftest.py", "tests/test_a.py"})
    project = Project((tmp_path,), frozenset({"tests/test_a.py"}), fixed)
    kinds = {path: project.classify(path) for path in [*fixed, "django/test/other.py"]}
    assert kinds == {
        "django/test/utils.py": FileClass.SOURCE,
        "django/test/other.py": FileClass.TEST_SURFACE,
        "conftest.py": FileClass.TEST_INFRASTRUCTURE,
        "tests/test_a.py": FileClass.TEST_SURFACE,
    }
