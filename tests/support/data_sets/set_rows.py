"""Handwritten rows in the layouts of public data sets, with the columns that curation reads."""

import json

PATCH = """diff --git a/pkg/area.py b/pkg/area.py
--- a/pkg/area.py
+++ b/pkg/area.py
@@ -1,4 +1,4 @@
 def area(width, height):
     # both are lengths
-    return width + height
+    return width * height
 
"""
ISSUE = (
    "The area of a rectangle is wrong. When I call area(2, 3) the result is 5, but it should be 6. "
    "This is what I get with the last release, and it worked in the one before. "
    "The documentation multiplies width by height, while the source adds both lengths, so every perimeter looks plausible."
)


def make_rebench_row(name="owner__repo-1", scores=(0, 1, 0), num_files=1, patch=PATCH, **columns):
    """Return a row of SWE-rebench V1."""
    llm_score = dict(zip(("difficulty_score", "issue_text_score", "test_score"), scores, strict=True))
    row = {
        "instance_id": name, "repo": "owner/repo", "base_commit": "0" * 40, "created_at": "2024-01-02 03:04:05",
        "problem_statement": ISSUE, "hints_text": "", "patch": patch, "test_patch": "", "version": "1.0",
        "FAIL_TO_PASS": ["tests/test_area.py::test_area"], "FAIL_TO_FAIL": [], "PASS_TO_PASS": [], "PASS_TO_FAIL": [],
        "meta": {
            "commit_name": "merge_commit", "failed_lite_validators": [], "has_test_patch": True, "is_lite": True,
            "llm_score": llm_score, "num_modified_files": num_files,
        },
        "image_name": f"swerebench/sweb.eval.x86_64.{name}", "license_name": None,
    }  # fmt: skip
    return row | columns


def make_v2_row(name="owner__repo-2", code="A", difficulty="medium", as_list=True, **columns):
    """Return a row of SWE-rebench V2, with its judgement in a list or alone."""
    judgement = {"code": code, "confidence": 0.9, "detected_issues": {}, "difficulty": difficulty, "pr_categories": []}
    meta = {"llm_metadata": [judgement] if as_list else judgement, "num_modified_files": 1, "num_modified_lines": 2}
    row = make_rebench_row(name, meta=meta, created_at=1700000000000)
    return row | columns


def make_mined_row(name, date="2024-01-02T03:04:05+00:00", commit="", parent="", **columns):
    """Return a row as `tasks mine` writes it, without layers."""
    meta = {"kind": "mined", "commit": commit, "parent": parent, "date": date}
    return make_rebench_row(name, meta=meta, created_at=None) | columns


def write_rows(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file
