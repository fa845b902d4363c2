"""Handwritten rows of public data sets, one per set, with all columns in their published types."""

import json

GOLD = """\
diff --git a/src/shop/cart.py b/src/shop/cart.py
index 1111111..2222222 100644
--- a/src/shop/cart.py
+++ b/src/shop/cart.py
@@ -1,4 +1,4 @@
 def total(prices, discount=0):
-    return sum(prices)
+    return sum(prices) - discount
 
 
"""
HIDDEN = """\
diff --git a/tests/test_cart.py b/tests/test_cart.py
index 3333333..4444444 100644
--- a/tests/test_cart.py
+++ b/tests/test_cart.py
@@ -1,3 +1,7 @@
 from shop.cart import total
 
 
+def test_discount():
+    assert total([5, 7], discount=2) == 10
+
+
"""
FAILING = ["tests/test_cart.py::test_discount"]
PASSING = ["tests/test_cart.py::test_total", "tests/test_cart.py::test_names[one", "tests/test_cart.py::test_empty"]
ISSUE = "total() takes a discount and does nothing with it.\r\n\r\nIt should be taken off the sum."

CORE = {
    "repo": "shop-tools/shop",
    "instance_id": "shop-tools__shop-17",
    "base_commit": "0123456789abcdef0123456789abcdef01234567",
    "patch": GOLD,
    "test_patch": HIDDEN,
    "problem_statement": ISSUE,
    "hints_text": "",
    "created_at": "2023-04-14T16:36:54Z",
    "version": "2.3",
}

SWE_BENCH = CORE | {
    "FAIL_TO_PASS": json.dumps(FAILING),
    "PASS_TO_PASS": json.dumps(PASSING),
    "environment_setup_commit": "89abcdef0123456789abcdef0123456789abcdef",
}
VERIFIED = SWE_BENCH | {"difficulty": "15 min - 1 hour"}
SWE_REBENCH = CORE | {
    "created_at": "2023-04-14 16:36:54",
    "environment_setup_commit": "0123456789abcdef0123456789abcdef01234567",
    "meta": {
        "commit_name": "merge_commit",
        "failed_lite_validators": ["has_hyperlinks"],
        "has_test_patch": True,
        "is_lite": False,
        "llm_score": {"difficulty_score": -1, "issue_text_score": 1, "test_score": 0},
        "num_modified_files": 1,
    },
    "install_config": {
        "env_vars": None,
        "env_yml_path": None,
        "install": "pip install -e .[dev]",
        "log_parser": "parse_log_pytest",
        "no_use_env": None,
        "packages": "requirements.txt",
        "pip_packages": ["pytest pytest-cov", "pytest"],
        "pre_install": None,
        "python": "3.9",
        "reqs_path": ["requirements.txt"],
        "test_cmd": "pytest --no-header -rA --tb=line --color=no -p no:cacheprovider",
    },
    "requirements": "attrs==25.3.0\n-e git+https://example.org/shop.git@0123456#egg=shop\n",
    "environment": "name: shop\nchannels:\n  - defaults\n",
    "FAIL_TO_PASS": FAILING,
    "FAIL_TO_FAIL": ["tests/test_cart.py::test_network"],
    "PASS_TO_PASS": PASSING,
    "PASS_TO_FAIL": [],
    "license_name": None,
    "docker_image": "swerebench/sweb.eval.x86_64.shop-tools_1776_shop-17",
    "image_name": "swerebench/sweb.eval.x86_64.shop-tools_1776_shop-17",
}
SWE_REBENCH_V2 = {
    "base_commit": CORE["base_commit"],
    "created_at": 1609298073000,
    "instance_id": "shop-tools__shop-17",
    "meta": {
        "llm_metadata": [{"code": "A", "confidence": 0.97, "detected_issues": {"B1": False}, "difficulty": "medium"}],
        "num_modified_files": 1,
        "num_modified_lines": 2,
        "pr_author": "ann",
        "pr_labels": [],
        "pr_url": None,
    },
    "patch": GOLD,
    "pr_description": "Take the discount off",
    "problem_statement": ISSUE,
    "repo": "Shop-Tools/shop",
    "test_patch": HIDDEN,
    "language": "c",
    "interface": "Function: total",
    "PASS_TO_PASS": ["tst_names", "tst_empty"],
    "FAIL_TO_PASS": ["tst_discount"],
    "install_config": {
        "base_image_name": "c:latest",
        "docker_specs": None,
        "install": ["apt-get update -qq", "make"],
        "log_parser": "parse_log_jq",
        "log_parsers": None,
        "test_cmd": ["export LC_ALL=C", "make check"],
    },
    "image_name": "docker.io/swerebenchv2/shop-tools-shop:17-0123456",
}
SWE_GYM = CORE | {"created_at": "2023-04-14 16:36:54", "FAIL_TO_PASS": FAILING, "PASS_TO_PASS": PASSING}

SWE_BENCH_V5 = CORE | {
    "FAIL_TO_PASS": json.dumps(FAILING),
    "PASS_TO_PASS": json.dumps(PASSING),
    "environment_setup_commit": "89abcdef0123456789abcdef0123456789abcdef",
    "image": "swebench/sweb.eval.x86_64.shop-tools_1776_shop-17:latest",
    "eval_script": """\
#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git checkout 0123456 tests/test_cart.py
: '>>>>> Start Test Output'
pytest -rA tests/test_cart.py
: '>>>>> End Test Output'
git checkout 0123456 tests/test_cart.py
""",
    "log_parser": "parse_log_pytest",
    "eval_type": "pass_and_fail",
    "image_assets": None,
}
SWE_SMITH = {
    "instance_id": "shop-tools__shop.0123abcd.func_basic__0a1b2c3d",
    "repo": "swesmith/shop-tools__shop.0123abcd",
    "patch": GOLD,
    "FAIL_TO_PASS": FAILING,
    "PASS_TO_PASS": PASSING,
    "created_at": "2025-03-21T08:23:31.701599",
    "image_name": "swesmith.x86_64.shop-tools__shop.0123abcd",
    "base_commit": "0123456789abcdef0123456789abcdef01234567",
    "problem_statement": ISSUE,
}


def make_r2e_log(*lines):
    """Return the end of a pytest log with a short summary."""
    return "\n".join(["collected 3 items", f"{'=' * 27} short test summary info {'=' * 28}", *lines, "=== done ==="])


R2E_GYM = {
    "repo_name": "shop",
    "docker_image": "namanjain12/shop_final:0123456789abcdef0123456789abcdef01234567",
    "commit_hash": "0123456789abcdef0123456789abcdef01234567",
    "parsed_commit_content": json.dumps(
        {
            "file_diffs": [
                {
                    "old_file_content": "",
                    "new_file_content": "",
                    "header": {"file": {"path": "src/shop/cart.py"}, "misc_line": None},
                    "index_line": {"old_commit_hash": "1111111", "new_commit_hash": "2222222", "mode": "100644"},
                    "is_binary_file": False,
                    "binary_line": None,
                    "minus_file": {"path": "a/src/shop/cart.py"},
                    "plus_file": {"path": "b/src/shop/cart.py"},
                    "hunks": [
                        {
                            "descriptor": {
                                "old_range": {"start": 1, "length": 4},
                                "new_range": {"start": 1, "length": 4},
                                "section": "",
                            },
                            "line_group": {
                                "all_lines": [
                                    {"content": "def total(prices, discount=0):", "type": "context"},
                                    {"content": "    return sum(prices)", "type": "deleted"},
                                    {"content": "    return sum(prices) - discount", "type": "added"},
                                    {"content": "", "type": "context"},
                                    {"content": "", "type": "context"},
                                ]
                            },
                            "modified_entities": [],
                            "added_entities": [],
                            "deleted_entities": [],
                        }
                    ],
                },
                {
                    "header": {"file": {"path": "tests/test_cart.py"}, "misc_line": None},
                    "is_binary_file": False,
                    "hunks": [],
                },
            ],
            "old_commit_hash": "0123456789abcdef0123456789abcdef01234567^",
            "new_commit_hash": "0123456789abcdef0123456789abcdef01234567",
            "commit_message": "Take the discount off",
            "commit_date": "2024-10-10T14:08:28Z",
            "metadata": {},
        },
        indent=4,
    ),
    "execution_result_content": json.dumps(
        {
            "repo_name": "shop",
            "new_commit_hash": "0123456789abcdef0123456789abcdef01234567",
            "test_file_codes": [
                "from shop.cart import total\n\n\ndef test_discount():\n    assert total([5], 1) == 4\n",
                "",
            ],
            "test_file_names": ["test_1.py", "__init__.py"],
            "new_commit_res_code": 0,
            "new_commit_res_stdout": make_r2e_log(
                "PASSED r2e_tests/test_1.py::test_discount[a - b]",
                "PASSED r2e_tests/test_1.py::TestCart::test_names",
                "SKIPPED [1] r2e_tests/test_1.py:9: no network",
            ),
            "old_commit_res_code": 1,
            "old_commit_res_stdout": make_r2e_log(
                "PASSED r2e_tests/test_1.py::TestCart::test_names",
                "FAILED r2e_tests/test_1.py::test_discount[a - b] - assert 5 == 4",
            ),
        },
        indent=4,
    ),
    "modified_files": ["src/shop/cart.py", "tests/test_cart.py"],
    "modified_entity_summaries": [{"ast_type_str": "FunctionDef", "name": "total", "start_lineno": 1, "end_lineno": 2}],
    "relevant_files": ["src/shop/cart.py"],
    "num_non_test_files": 1,
    "num_non_test_func_methods": 1,
    "num_non_test_lines": 2,
    "prompt": [{"content": "Write an issue.", "role": "user"}],
    "problem_statement": f"[ISSUE]\n{ISSUE}\n[/ISSUE]",
    "expected_output_json": json.dumps({"test_discount[a - b]": "PASSED", "TestCart.test_names": "PASSED"}, indent=4),
}
SWE_BENCH_PRO = {
    "repo": "shop-tools/shop",
    "instance_id": "instance_shop-tools__shop-0123456789abcdef0123456789abcdef01234567-v89abcdef",
    "base_commit": "89abcdef0123456789abcdef0123456789abcdef",
    "patch": GOLD,
    "test_patch": HIDDEN,
    "problem_statement": json.dumps(ISSUE),
    "requirements": json.dumps("- The discount is taken off."),
    "interface": "No new interface introduced.",
    "repo_language": "python",
    "fail_to_pass": repr(["test_cart.py | it's a 'discount'"]),
    "pass_to_pass": "[]",
    "issue_specificity": "['major_bug']",
    "issue_categories": "['back_end_knowledge']",
    "before_repo_set_cmd": "git reset --hard 89abcdef\ngit checkout 0123456 -- tests/test_cart.py",
    "selected_test_files_to_run": "['tests/test_cart.py', 'tests/test_shop.py']",
    "dockerhub_tag": "shop-tools.shop-shop-tools__shop-0123456789abcdef0123456789abcdef01234567-v89abcdef",
    "run_script": "#!/bin/bash\npytest -v $1\n",
    "parser": "import sys\n",
}
MULTI_SWE = {
    "org": "Shop-Tools",
    "repo": "shop",
    "number": 17,
    "state": "closed",
    "title": "Take the discount off",
    "body": "Fixes #16.",
    "base": {"label": "Shop-Tools:master", "ref": "master", "sha": "89abcdef0123456789abcdef0123456789abcdef"},
    "resolved_issues": [{"number": 16, "title": "total() takes a discount and", "body": ISSUE}],
    "fix_patch": GOLD.replace("cart.py", "cart.go"),
    "test_patch": HIDDEN,
    "fixed_tests": {"TestDiscount": {"run": "NONE", "test": "FAIL", "fix": "PASS"}, "TestPadded": None},
    "p2p_tests": {"TestTotal": {"run": "PASS", "test": "PASS", "fix": "PASS"}},
    "f2p_tests": {"TestDiscount": {"run": "NONE", "test": "FAIL", "fix": "PASS"}},
    "s2p_tests": {},
    "n2p_tests": {},
    "run_result": {"passed_count": 1, "failed_count": 0, "skipped_count": 0, "passed_tests": ["TestTotal"]},
    "test_patch_result": {"passed_count": 1, "failed_count": 1, "skipped_count": 0, "passed_tests": ["TestTotal"]},
    "fix_patch_result": {"passed_count": 2, "failed_count": 0, "skipped_count": 0, "passed_tests": ["TestTotal"]},
    "instance_id": "shop-tools__shop-17",
}
HARBOR = {
    "name": "shop-17",
    "files": {
        "environment/Dockerfile": "FROM ghcr.io/shop-tools/tasks:shop-17\nWORKDIR /srv/shop\n",
        "instruction.md": ISSUE,
        "solution/fix.diff": GOLD,
        "solution/solve.sh": "#!/bin/bash\ngit apply /solution/fix.diff\n",
        "task.toml": 'version = "1.0"\n\n[metadata]\ndifficulty = "easy"\n\n[verifier]\ntimeout_sec = 60.0\n',
        "tests/test.sh": "#!/bin/bash\npytest /tests/test_cart.py && echo 1 > /logs/verifier/reward.txt\n",
        "tests/test_cart.py": "from shop.cart import total\n",
    },
}
NEBIUS_SWE_AGENT = {
    "instance_id": "shop-tools__shop-17",
    "model_name": "swe-agent-llama-70b",
    "target": True,
    "trajectory": [
        {
            "role": "system",
            "system_prompt": "You are a programmer.",
            "text": None,
            "mask": False,
            "cutoff_date": "01.01.2023",
        },
        {"role": "user", "system_prompt": None, "text": "ISSUE:\nfix it", "mask": False, "cutoff_date": None},
        {"role": "ai", "system_prompt": None, "text": "Look.\n```\nls -F\n```", "mask": False, "cutoff_date": None},
        {"role": "user", "system_prompt": None, "text": "cart.py", "mask": False, "cutoff_date": None},
        {"role": "ai", "system_prompt": None, "text": "Done.\n```\nsubmit\n```", "mask": True, "cutoff_date": None},
        {"role": "user", "system_prompt": None, "text": "bye", "mask": False, "cutoff_date": None},
    ],
    "exit_status": "submitted",
    "generated_patch": f"\n{GOLD}",
    "eval_logs": "1 passed",
}
NEBIUS_OPENHANDS = {
    "trajectory_id": "shop-tools__shop-17-3",
    "instance_id": "shop-tools__shop-17",
    "repo": "shop-tools/shop",
    "trajectory": [
        {"role": "system", "content": "You are OpenHands.", "tool_calls": None, "tool_call_id": None, "name": None},
        {"role": "user", "content": "fix it", "tool_calls": None, "tool_call_id": None, "name": None},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{"command": "ls"}', "x": None},
                }
            ],
            "tool_call_id": None,
            "name": None,
        },
        {"role": "tool", "content": "cart.py", "tool_calls": None, "tool_call_id": "1", "name": "bash"},
        {"role": "assistant", "content": "Done.", "tool_calls": None, "tool_call_id": None, "name": None},
    ],
    "tools": [
        {"type": "function", "function": {"name": "bash", "parameters": {"command": {"type": "string", "enum": None}}}}
    ],
    "model_patch": GOLD,
    "exit_status": "submit",
    "resolved": 1,
    "gen_tests_correct": None,
    "pred_passes_gen_tests": None,
}

GOLDEN = [
    ("swe-bench", SWE_BENCH),
    ("swe-bench", VERIFIED),
    ("swe-bench-v5", SWE_BENCH_V5),
    ("swe-rebench", SWE_REBENCH),
    ("swe-rebench-v2", SWE_REBENCH_V2),
    ("swe-gym", SWE_GYM),
    ("swe-smith", SWE_SMITH),
    ("r2e-gym", R2E_GYM),
    ("swe-bench-pro", SWE_BENCH_PRO),
    ("multi-swe", MULTI_SWE),
    ("harbor", HARBOR),
]
"""Pairs of data set name and row."""
