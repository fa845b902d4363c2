"""Mapping of each data set's rows: image, workdir, command, parser, status rules, set-up."""

import json
import subprocess

import pytest

from support.data_sets.golden_rows import (
    FAILING,
    GOLD,
    HARBOR,
    HIDDEN,
    MULTI_SWE,
    PASSING,
    R2E_GYM,
    SWE_BENCH,
    SWE_BENCH_PRO,
    SWE_BENCH_V5,
    SWE_GYM,
    SWE_REBENCH,
    SWE_REBENCH_V2,
    SWE_SMITH,
    make_r2e_log,
)
from turnsmith.tasks.sets.base import to_record
from turnsmith.tasks.sets.directives import find_rule
from turnsmith.tasks.sets.recognition import find_set
from turnsmith.tasks.sets.swe_bench_pro import name_of_swe_bench_pro
from turnsmith.tasks.sets.swe_smith import name_of_swe_smith

CONDA = "source /opt/miniconda3/bin/activate testbed && "


@pytest.mark.parametrize(
    ("name", "row", "image", "workdir", "command", "parser", "rule"),
    [
        (
            "swe-bench",
            SWE_BENCH,
            "swebench/sweb.eval.x86_64.shop-tools_1776_shop-17:latest",
            "/testbed",
            f"{CONDA}pytest -rA",
            "pytest",
            "swe-bench",
        ),
        (
            "swe-gym",
            SWE_GYM,
            "xingyaoww/sweb.eval.x86_64.shop-tools_s_shop-17:latest",
            "/testbed",
            f"{CONDA}pytest -rA",
            "pytest",
            "swe-bench",
        ),
        (
            "swe-rebench",
            SWE_REBENCH,
            "swerebench/sweb.eval.x86_64.shop-tools_1776_shop-17",
            "/testbed",
            f"{CONDA}{SWE_REBENCH['install_config']['test_cmd']}",
            "pytest",
            "swe-bench",
        ),
        (
            "swe-rebench-v2",
            SWE_REBENCH_V2,
            "docker.io/swerebenchv2/shop-tools-shop:17-0123456",
            "/shop",
            "export LC_ALL=C && make check",
            "parse_log_jq",
            "swe-rebench-v2",
        ),
        (
            "swe-bench-v5",
            SWE_BENCH_V5,
            "swebench/sweb.eval.x86_64.shop-tools_1776_shop-17:latest",
            "/testbed",
            "source /opt/miniconda3/bin/activate && conda activate testbed && cd /testbed && pytest -rA",
            "pytest",
            "swe-bench",
        ),
        (
            "swe-smith",
            SWE_SMITH,
            "swebench/swesmith.x86_64.shop-tools_1776_shop.0123abcd",
            "/testbed",
            f"{CONDA}pytest -rA",
            "pytest",
            "swe-bench",
        ),
        (
            "r2e-gym",
            R2E_GYM,
            "namanjain12/shop_final:0123456789abcdef0123456789abcdef01234567",
            "/testbed",
            ".venv/bin/python -W ignore -m pytest -rA",
            "pytest",
            "r2e-gym",
        ),
        (
            "multi-swe",
            MULTI_SWE,
            "mswebench/shop-tools_m_shop:pr-17",
            "/home/shop",
            "bash /home/run.sh",
            "parse_log_gotest",
            "multi-swe",
        ),
        ("harbor", HARBOR, "ghcr.io/shop-tools/tasks:shop-17", "/srv/shop", None, "lines", "strict"),
        (
            "swe-bench-pro",
            SWE_BENCH_PRO,
            f"jefzda/sweap-images:{SWE_BENCH_PRO['dockerhub_tag']}",
            "/app",
            None,
            "lines",
            "swe-bench",
        ),
    ],
)
def test_image_place_command_parser_and_rule(name, row, image, workdir, command, parser, rule):
    task = to_record(find_set(name), row)
    assert (task.image, task.workdir, task.log_parser, task.status_rules) == (image, workdir, parser, rule)
    assert command is None or task.test_command == command
    assert task.created_by == name


def apply(patch, text, path, folder, *options):
    """Return the content of a file after a patch."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    subprocess.run(["git", "apply", *options, "-"], cwd=folder, input=patch, text=True, check=True)
    return file.read_text()


CLEAN = "def total(prices, discount=0):\n    return sum(prices)\n\n\n"


def test_the_bug_of_swe_smith_is_the_set_up_and_its_reverse_the_gold_patch(tmp_path):
    task = to_record(find_set("swe-smith"), SWE_SMITH)
    buggy = apply(GOLD, CLEAN, "src/shop/cart.py", tmp_path)
    assert apply(task.patch, buggy, "src/shop/cart.py", tmp_path) == CLEAN
    [put_in] = task.setup
    subprocess.run(["bash", "-c", put_in], cwd=tmp_path, check=True)
    assert (tmp_path / "src/shop/cart.py").read_text() == buggy


def test_the_files_of_r2e_become_hidden_tests_and_a_gold_patch_without_them(tmp_path):
    task = to_record(find_set("r2e-gym"), R2E_GYM)
    assert task.FAIL_TO_PASS == ["r2e_tests/test_1.py::test_discount[a - b]"]
    assert task.PASS_TO_PASS == ["r2e_tests/test_1.py::TestCart::test_names"]
    assert apply(task.patch, CLEAN, "src/shop/cart.py", tmp_path).endswith("- discount\n\n\n")
    assert "tests/test_cart.py" not in task.patch
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=task.test_patch, text=True, check=True)
    assert sorted(file.name for file in (tmp_path / "r2e_tests").iterdir()) == ["__init__.py", "test_1.py"]
    assert task.setup == ["rm -rf /r2e_tests r2e_tests run_tests.sh"]
    assert not task.problem_statement.startswith("[ISSUE]")


def with_r2e_run(**columns):
    """Return the golden row with another run."""
    return R2E_GYM | {"execution_result_content": json.loads(R2E_GYM["execution_result_content"]) | columns}


def test_colours_in_the_names_of_r2e_are_no_part_of_them():
    head = f"\x1b[36m\x1b[1m{'=' * 27} short test summary info {'=' * 28}\x1b[0m\n"
    after = f"{head}\x1b[32mPASSED\x1b[0m r2e_tests/test_1.py::\x1b[1mtest_discount\x1b[0m\n"
    before = f"{head}\x1b[31mFAILED\x1b[0m r2e_tests/test_1.py::\x1b[1mtest_discount\x1b[0m - assert 5 == 4\n"
    row = with_r2e_run(new_commit_res_stdout=after, old_commit_res_stdout=before)
    task = to_record(find_set("r2e-gym"), row | {"expected_output_json": {"\x1b[1mtest_discount\x1b[0m": "PASSED"}})
    assert (task.FAIL_TO_PASS, task.PASS_TO_PASS) == (["r2e_tests/test_1.py::test_discount"], [])


def test_a_runner_among_the_test_files_of_r2e_runs_them():
    after, before = (make_r2e_log(f"{word} test_1::TestCart::test_discount") for word in ("PASSED", "ERROR"))
    row = with_r2e_run(
        new_commit_res_stdout=after, old_commit_res_stdout=before, test_file_names=["test_1.py", "shop_runner.py"]
    )
    task = to_record(find_set("r2e-gym"), row | {"expected_output_json": {"TestCart.test_discount": "PASSED"}})
    assert task.FAIL_TO_PASS == ["test_1::TestCart::test_discount"]
    assert (task.log_parser, task.test_files) == ("lines", [])
    assert task.test_command == ".venv/bin/python -W ignore r2e_tests/shop_runner.py"


def test_multi_swe_counts_every_test_that_the_fix_makes_pass_and_hides_its_patches():
    task = to_record(find_set("multi-swe"), MULTI_SWE)
    assert (task.FAIL_TO_PASS, task.PASS_TO_PASS) == (["TestDiscount"], ["TestTotal"])
    assert task.setup == ["rm -f /home/*.patch /home/fix-run.sh /home/test-run.sh"]
    assert task.base_commit == MULTI_SWE["base"]["sha"]


def test_pro_runs_its_own_script_and_parser(tmp_path):
    task = to_record(find_set("swe-bench-pro"), SWE_BENCH_PRO)
    assert task.FAIL_TO_PASS == ["test_cart.py | it's a 'discount'"]
    assert task.test_files == ["tests/test_cart.py,tests/test_shop.py"]
    assert "Requirements:\n- The discount is taken off." in task.problem_statement


PRO_PARSER = """\
import json, sys
name = open(sys.argv[1]).read().strip()
json.dump({"tests": [{"name": name, "status": STATUS}]}, open(sys.argv[3], "w"))
"""


@pytest.mark.parametrize(("status", "code"), [("PASSED", 0), ("FAILED", 1)])
def test_pro_says_what_its_parser_found(tmp_path, status, code):
    row = SWE_BENCH_PRO | {"run_script": "echo ran $1\n", "parser": PRO_PARSER.replace("STATUS", repr(status))}
    command = to_record(find_set("swe-bench-pro"), row).test_command.replace("/workspace", str(tmp_path / "work"))
    result = subprocess.run(["bash", "-c", f"{command} 'a.py,b.py'"], capture_output=True, text=True)
    assert (result.stdout, result.returncode) == (f"{status} ran a.py,b.py\n", code)


def test_a_version_5_script_that_ends_in_other_labels_keeps_its_command():
    script = SWE_BENCH_V5["eval_script"].replace("pytest -rA tests/test_cart.py", "./tests/runtests.py test_cart")
    row = SWE_BENCH_V5 | {"eval_script": script, "FAIL_TO_PASS": '["test_a (test_cart.T)"]', "PASS_TO_PASS": "[]"}
    task = to_record(find_set("swe-bench-v5"), row | {"log_parser": "parse_log_django", "eval_type": "fail_only"})
    assert task.test_command.endswith("&& ./tests/runtests.py") and task.test_files == ["test_cart"]
    assert (task.log_parser, task.status_rules) == ("parse_log_django", "swe-bench-fail-only")


def test_django_gets_labels_and_sympy_files():
    django = SWE_BENCH | {"repo": "django/django", "version": "3.0", "FAIL_TO_PASS": '["test_a (test_cart.T)"]'}
    task = to_record(find_set("swe-bench"), django)
    assert task.test_files == ["test_cart"] and task.log_parser == "parse_log_django"
    assert task.test_command.endswith("--settings=test_sqlite --parallel 1")
    sympy = to_record(find_set("swe-bench"), SWE_BENCH | {"repo": "sympy/sympy", "FAIL_TO_PASS": '["test_eq"]'})
    assert sympy.test_files == ["tests/test_cart.py"] and "bin/test -C --verbose" in sympy.test_command
    assert find_rule("django/django", "1.9").command == "./tests/runtests.py --verbosity 2"


def test_tests_that_name_their_files_need_no_directives():
    task = to_record(find_set("swe-bench"), SWE_BENCH)
    assert (task.test_files, task.FAIL_TO_PASS, task.PASS_TO_PASS) == ([], FAILING, PASSING)
    assert task.test_patch == HIDDEN


@pytest.mark.parametrize(
    "named",
    [
        "swesmith.x86_64.Shop__cart.0a1b2c3d",
        "jyangballin/swesmith.x86_64.shop_1776_cart.0a1b2c3d",
        "swebench/swesmith.x86_64.shop_1776_cart.0a1b2c3d",
    ],
)
def test_three_spellings_of_an_image_of_swe_smith_are_one(named):
    assert name_of_swe_smith(named) == "swebench/swesmith.x86_64.shop_1776_cart.0a1b2c3d"


def test_images_of_pro_without_a_tag_follow_its_rule():
    tail = "NodeBB__NodeBB-0123-vnan"
    assert (
        name_of_swe_bench_pro(f"instance_{tail}", "NodeBB/NodeBB")
        == "jefzda/sweap-images:nodebb.nodebb-NodeBB__NodeBB-0123"
    )
    long = name_of_swe_bench_pro("instance_" + "x" * 200, "a/b")
    assert len(long.partition(":")[2]) == 128
