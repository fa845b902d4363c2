"""Rows that cannot be tasks: one clear reason each."""

import copy
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.data_sets.golden_rows import (
    GOLD,
    GOLDEN,
    HARBOR,
    MULTI_SWE,
    R2E_GYM,
    SWE_BENCH,
    SWE_BENCH_PRO,
    SWE_BENCH_V5,
    SWE_REBENCH,
    SWE_REBENCH_V2,
    SWE_SMITH,
)
from turnsmith.tasks.sets.base import Refused, to_record
from turnsmith.tasks.sets.recognition import find_set


def without(row, *columns):
    return {name: value for name, value in row.items() if name not in columns}


def with_files(**files):
    """Return the golden directory with other files; None removes one."""
    changed = HARBOR["files"] | {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    return HARBOR | {"files": {name: text for name, text in changed.items() if text is not None}}


MALFORMED = [
    ("swe-bench", without(SWE_BENCH, "instance_id"), "no instance_id"),
    ("swe-bench", SWE_BENCH | {"instance_id": 17}, "bad instance_id"),
    ("swe-bench", SWE_BENCH | {"instance_id": "a b"}, "bad image"),
    ("swe-bench", SWE_BENCH | {"repo": ""}, "no repo"),
    ("swe-bench", SWE_BENCH | {"base_commit": None}, "no base_commit"),
    ("swe-bench", SWE_BENCH | {"problem_statement": " \n"}, "no issue text"),
    ("swe-bench", SWE_BENCH | {"patch": ""}, "no gold patch"),
    ("swe-bench", SWE_BENCH | {"patch": GOLD[:-20]}, "bad gold patch"),
    ("swe-bench", SWE_BENCH | {"patch": "fix it"}, "bad gold patch"),
    ("swe-bench", SWE_BENCH | {"patch": ["diff --git"]}, "bad gold patch"),
    ("swe-bench", SWE_BENCH | {"patch": GOLD + "one more line\n"}, "bad gold patch"),
    ("swe-bench", SWE_BENCH | {"test_patch": ""}, "no test patch"),
    (
        "swe-bench",
        SWE_BENCH | {"test_patch": "diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n"},
        "bad test patch",
    ),
    ("swe-bench", SWE_BENCH | {"FAIL_TO_PASS": "[]"}, "empty FAIL_TO_PASS"),
    ("swe-bench", SWE_BENCH | {"FAIL_TO_PASS": '["test_a", '}, "unreadable FAIL_TO_PASS"),
    ("swe-bench", SWE_BENCH | {"FAIL_TO_PASS": "[" * 100_000}, "unreadable FAIL_TO_PASS"),
    ("swe-bench", SWE_BENCH | {"FAIL_TO_PASS": [1, 2]}, "unreadable FAIL_TO_PASS"),
    ("swe-bench", SWE_BENCH | {"PASS_TO_PASS": 3}, "unreadable PASS_TO_PASS"),
    ("swe-bench", without(SWE_BENCH, "PASS_TO_PASS"), "no PASS_TO_PASS"),
    ("swe-rebench", SWE_REBENCH | {"image_name": "", "docker_image": None}, "no image"),
    ("swe-rebench", SWE_REBENCH | {"image_name": "Image With Blanks"}, "bad image"),
    ("swe-rebench", SWE_REBENCH | {"install_config": None}, "no test command"),
    ("swe-rebench", SWE_REBENCH | {"install_config": "pip install"}, "unreadable install_config"),
    ("swe-rebench", SWE_REBENCH | {"install_config": {"test_cmd": [" "]}}, "no test command"),
    ("swe-rebench", SWE_REBENCH | {"meta": "good"}, "unreadable meta"),
    ("swe-rebench-v2", SWE_REBENCH_V2 | {"image_name": None}, "no image"),
    ("swe-rebench-v2", SWE_REBENCH_V2 | {"repo": "someone/etc"}, "bad workdir"),
    ("swe-bench-v5", SWE_BENCH_V5 | {"eval_script": "pytest"}, "no test command"),
    ("swe-bench-v5", SWE_BENCH_V5 | {"log_parser": ""}, "no log_parser"),
    ("swe-bench-v5", SWE_BENCH_V5 | {"test_assets": ["expected.png"]}, "binary test assets"),
    ("swe-smith", SWE_SMITH | {"problem_statement": ""}, "no issue text"),
    ("swe-smith", SWE_SMITH | {"patch": "diff --git a/x b/y\ncopy from x\ncopy to y\n"}, "bad bug patch"),
    ("swe-smith", SWE_SMITH | {"FAIL_TO_PASS": ["TestDiscount"]}, "no test command"),
    ("swe-smith", SWE_SMITH | {"patch": GOLD.replace("- discount", "x" * 120_000)}, "bug patch too large"),
    ("r2e-gym", R2E_GYM | {"execution_result_content": "{"}, "unreadable execution_result_content"),
    ("r2e-gym", R2E_GYM | {"execution_result_content": "{}"}, "incomplete log"),
    ("r2e-gym", R2E_GYM | {"parsed_commit_content": '{"file_diffs": [{}]}'}, "bad gold patch"),
    ("r2e-gym", R2E_GYM | {"parsed_commit_content": "{}"}, "no gold patch"),
    ("r2e-gym", R2E_GYM | {"expected_output_json": '{"test_gone": "PASSED"}'}, "incomplete log"),
    ("r2e-gym", R2E_GYM | {"docker_image": ""}, "no image"),
    ("swe-bench-pro", without(SWE_BENCH_PRO, "run_script"), "no run script"),
    (
        "swe-bench-pro",
        SWE_BENCH_PRO | {"selected_test_files_to_run": "tests/test_a.py"},
        "unreadable selected_test_files_to_run",
    ),
    ("swe-bench-pro", SWE_BENCH_PRO | {"fail_to_pass": "['a', 'b"}, "unreadable fail_to_pass"),
    ("multi-swe", MULTI_SWE | {"fixed_tests": {}}, "empty fixed_tests"),
    ("multi-swe", MULTI_SWE | {"base": {"ref": "master"}}, "no base_commit"),
    ("multi-swe", MULTI_SWE | {"resolved_issues": []}, "no issue text"),
    ("multi-swe", MULTI_SWE | {"fix_patch": GOLD.replace("cart.py", "cart.pas")}, "unknown language"),
    ("harbor", with_files(instruction_dot_md=None), "no issue text"),
    ("harbor", with_files(instruction_dot_md=None, steps__1__instruction_dot_md="do"), "several steps"),
    ("harbor", with_files(tests__test_dot_sh=None), "no test command"),
    ("harbor", with_files(task_dot_toml="[task"), "unreadable task.toml"),
    ("harbor", with_files(environment__Dockerfile="FROM a\nRUN make\n"), "image to build"),
    ("harbor", with_files(environment__Dockerfile=None), "no image"),
    ("harbor", with_files(tests__turnsmith_dot_json="{}"), "unreadable row"),
]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "{}", "[]"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=3,
)
INTERNALS = re.compile(
    r"NoneType|Error|argument|attribute|subscript|iterable|object has|unhashable|concatenate|\[Errno"
)


def find_places(value, path=()):
    """Return the paths to all values in a row."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in inner:
        yield (*path, key)
        yield from find_places(held, (*path, key))


def unpack(row):
    """Return the row with JSON texts replaced by objects, which the sets accept."""
    return {
        key: json.loads(value) if isinstance(value, str) and value.startswith("{") else value
        for key, value in row.items()
    }


@given(st.sampled_from(GOLDEN), st.data(), VALUES)
def test_a_row_with_any_value_anywhere_is_a_task_or_is_refused_without_words_of_python(golden, data, value):
    name, row = golden[0], copy.deepcopy(unpack(golden[1]))
    *path, last = data.draw(st.sampled_from([*find_places(row)]))
    place = row
    for key in path:
        place = place[key]
    place[last] = value
    try:
        assert to_record(find_set(name), row).model_dump_json()
    except Refused as refusal:
        assert not INTERNALS.search(str(refusal))


@pytest.mark.parametrize(
    ("name", "row", "reason"), MALFORMED, ids=[f"{name}-{n}" for n, (name, *_) in enumerate(MALFORMED)]
)
def test_a_malformed_row_gives_one_clear_reason(name, row, reason):
    with pytest.raises(Refused) as refused:
        to_record(find_set(name), row)
    assert refused.value.reason == reason
    assert str(refused.value).count("\n") == 0 and len(str(refused.value)) < 300


def test_the_table_has_the_number_that_was_promised():
    assert len(MALFORMED) >= 40


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("task.yaml", b"a: [", "task.yaml"),
        ("task.yaml", b"- 1", "task.yaml is not an object"),
        ("tests.json", b"{", "tests.json"),
        ("tests.json", b"[]", "tests.json is not an object"),
        ("gold.patch", b"\xff", "gold.patch is not UTF-8"),
    ],
)
def test_a_task_folder_with_a_bad_file_is_refused_by_its_name(tmp_path, file, content, complaint):
    folders = find_set("swe-bench-v5").folders
    folders.write(SWE_BENCH_V5, tmp_path)
    [folder] = folders.find(tmp_path)
    (folder / file).write_bytes(content)
    refused = folders.read(folder)
    assert refused.reason == "unreadable row" and complaint in str(refused)
    (folder / "tests.json").unlink()
    assert isinstance(folders.read(folder), Refused)
