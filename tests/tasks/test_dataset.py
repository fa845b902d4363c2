import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.errors import UsageError
from turnsmith.tasks.dataset import layer_paths, load_tasks, save_tasks
from turnsmith.types import Task

text = st.text(st.characters(exclude_categories=["Cs"]))
tasks = st.builds(
    Task,
    instance_id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    repo=text,
    base_commit=text,
    problem_statement=text,
    FAIL_TO_PASS=st.lists(text, min_size=1, max_size=2),
    PASS_TO_PASS=st.lists(text, max_size=2),
    patch=text,
    test_patch=text,
    layers=st.lists(text, min_size=1, max_size=2),
    setup=st.just([]),
    meta=st.dictionaries(text, st.integers() | text, max_size=2),
)


def make_row(**columns):
    row = {"instance_id": "a-1", "repo": "a", "base_commit": "0", "problem_statement": "", "patch": "", "layers": ["x"]}
    return row | {"FAIL_TO_PASS": ["t"], "PASS_TO_PASS": []} | columns


def has_clear_tests(task):
    return not set(task.FAIL_TO_PASS) & set(task.PASS_TO_PASS)


@given(st.lists(tasks.filter(has_clear_tests), min_size=1, max_size=4, unique_by=lambda task: task.instance_id))
def test_what_is_saved_is_loaded(tmp_path_factory, tasks):
    folder = tmp_path_factory.mktemp("tasks")
    assert load_tasks(save_tasks(folder, tasks)) == tasks
    assert load_tasks(folder) == tasks


def test_columns_of_other_makers_are_kept_and_json_strings_read(tmp_path):
    row = make_row(FAIL_TO_PASS='["t1", "t2"]', hints_text="look")
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row) + "\n\n")
    [task] = load_tasks(tmp_path)
    assert task.FAIL_TO_PASS == ["t1", "t2"]
    assert task.model_dump()["hints_text"] == "look"


def test_a_byte_order_mark_is_passed_over(tmp_path):
    (tmp_path / "tasks.jsonl").write_text("\ufeff" + json.dumps(make_row()) + "\n", encoding="utf-8")
    assert [task.instance_id for task in load_tasks(tmp_path)] == ["a-1"]


def test_a_row_may_say_what_its_test_command_gets():
    assert Task.model_validate(make_row(test_files='["queries.tests"]')).test_files == ["queries.tests"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: not valid JSON: Expecting property name enclosed in double quotes at column 2"),
        ('{"repo": "a', "line 2: not valid JSON: Unterminated string starting at column 10"),
        ("[" * 100_000, "line 2: not valid JSON"),
        ('{"seed": ' + "9" * 5_000 + "}", "line 2: not valid JSON"),
        ("3", "not a JSON object"),
        (json.dumps({"repo": "a"}), "line 2: this line is not a task: column 'instance_id' is missing"),
        (json.dumps(make_row(layers=[])), "line 2: this line is not a task: layers and image"),
        (json.dumps(make_row(FAIL_TO_PASS=[])), "line 2: a-1 has no FAIL_TO_PASS test"),
        (json.dumps(make_row(FAIL_TO_PASS="[]")), "line 2: a-1 has no FAIL_TO_PASS test"),
        (json.dumps(make_row(workdir="testbed")), "line 2: this line is not a task: column 'workdir': 'testbed'"),
        (json.dumps(make_row(workdir="/")), "line 2: this line is not a task: column 'workdir': '/'"),
        (
            json.dumps(make_row(workdir="/testbed/../etc")),
            "line 2: this line is not a task: column 'workdir': '/testbed/../etc' has '..'",
        ),
        (json.dumps(make_row(workdir="/.")), "line 2: this line is not a task: column 'workdir': '/.'"),
        (json.dumps(make_row(workdir="/a\0b")), "line 2: this line is not a task: column 'workdir': '/a\\x00b'"),
        (json.dumps(make_row(workdir="//etc/")), "line 2: this line is not a task: column 'workdir': '//etc/'"),
        (json.dumps(make_row(workdir="/proc/1")), "line 2: this line is not a task: column 'workdir': '/proc/1'"),
        (json.dumps(make_row(test_command=" ")), "line 2: this line is not a task: column 'test_command': ' '"),
        (json.dumps(make_row(test_command="a\0")), "line 2: this line is not a task: column 'test_command': 'a\\x00'"),
        (json.dumps(make_row(PASS_TO_PASS=["a", "t"])), "line 2: a-1 has the test 't' in FAIL_TO_PASS and"),
        (
            json.dumps(make_row(instance_id="")),
            "line 2: this line is not a task: column 'instance_id': String should have at least 1 character",
        ),
        (
            json.dumps(make_row(patch=7)),
            "line 2: this line is not a task: column 'patch': Input should be a valid string",
        ),
        (json.dumps(make_row(FAIL_TO_PASS="[")), "line 2: this line is not a task: column 'FAIL_TO_PASS': '['"),
        (json.dumps(make_row(FAIL_TO_PASS="[" * 100_000)), "column 'FAIL_TO_PASS': "),
        (json.dumps(make_row()), "instance_id 'a-1' occurs 2 times"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path, line, complaint):
    file = tmp_path / "mine.jsonl"
    file.write_text(f"{json.dumps(make_row())}\n{line}\n")
    with pytest.raises(UsageError) as fault:
        load_tasks(file)
    assert str(fault.value).startswith(str(file))
    assert complaint in str(fault.value)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("workdir", ["/testbed", "/usr/src/app", "/var/www/", "/etc/default", "/home/me/proc"])
def test_a_tree_may_stand_below_folders_of_the_system(workdir):
    assert Task.model_validate(make_row(workdir=workdir)).workdir == workdir


def test_a_missing_file_an_empty_and_a_binary_one_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"tasks\.jsonl"):
        load_tasks(tmp_path)
    with pytest.raises(UsageError, match=r"nowhere"):
        load_tasks(tmp_path / "nowhere")
    (tmp_path / "x.jsonl").write_bytes(b"\n")
    with pytest.raises(UsageError, match=r"x\.jsonl .*no task"):
        load_tasks(tmp_path / "x.jsonl")
    (tmp_path / "x.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        load_tasks(tmp_path / "x.jsonl")


def test_layers_lie_beside_the_task_file_or_are_named(tmp_path):
    (tmp_path / "layers/x").mkdir(parents=True)
    task = Task.model_validate(make_row(layers=["layers/x"]))
    assert layer_paths(task, tmp_path / "tasks.jsonl") == (tmp_path / "layers/x",)
    gone = Task.model_validate(make_row(layers=["layers/x", "layers/gone"]))
    with pytest.raises(UsageError, match=r"a-1 .*layers/gone"):
        layer_paths(gone, tmp_path / "tasks.jsonl")


@pytest.mark.parametrize("layer", ["ring", "a\0b"])
def test_a_layer_that_leads_nowhere_is_missing(tmp_path, layer):
    (tmp_path / "ring").symlink_to("ring")
    task = Task.model_validate(make_row(layers=[layer]))
    with pytest.raises(UsageError, match=r"a-1 .*folder .*missing"):
        layer_paths(task, tmp_path / "tasks.jsonl")


@pytest.mark.parametrize("layer", ["/", "/proc", "/proc/self", "/sys/kernel", "/dev", "../" * 20 + "proc"])
def test_a_layer_that_is_the_machines_own_is_refused(tmp_path, layer):
    task = Task.model_validate(make_row(layers=[layer]))
    with pytest.raises(UsageError, match=r"a-1 .*layer /.*: give a folder"):
        layer_paths(task, tmp_path / "tasks.jsonl")


def test_a_layer_that_is_named_twice_is_refused(tmp_path):
    (tmp_path / "x").mkdir()
    task = Task.model_validate(make_row(layers=["x", "./x"]))
    with pytest.raises(UsageError, match=r"a-1 .*layer .*/x 2 times"):
        layer_paths(task, tmp_path / "tasks.jsonl")
