"""Predictions in all supported formats, and errors in invalid ones."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.errors import UsageError
from turnsmith.tasks.predictions import Prediction, keep_last, read_predictions, write_predictions

PATCH = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-1\n+2\n"
ROWS = [
    {"instance_id": "a-1", "model_name_or_path": "owner/model", "model_patch": PATCH},
    {"instance_id": "a-2", "model_name_or_path": "owner/model", "model_patch": None, "cost": 3},
    {"instance_id": "a-3", "model_patch": ""},
]
FORMS = {
    "lines": "\n".join(map(json.dumps, ROWS)),
    "lines, Windows": "\r\n".join(map(json.dumps, ROWS)) + "\r\n\r\n",
    "a list": json.dumps(ROWS, indent=2),
    "rows by id": json.dumps({row["instance_id"]: row for row in ROWS}),
    "rows by id, which is not repeated": json.dumps(
        {row["instance_id"]: {name: row[name] for name in row if name != "instance_id"} for row in ROWS}
    ),
    "with a mark of the byte order": "\ufeff" + json.dumps(ROWS),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(tmp_path, form):
    file = tmp_path / "preds"
    file.write_text(FORMS[form], encoding="utf-8", newline="")
    assert read_predictions(file) == [
        Prediction("a-1", "owner/model", PATCH), Prediction("a-2", "owner/model", ""), Prediction("a-3", "unnamed", ""),
    ]  # fmt: skip


OPENHANDS = [
    {"instance_id": "a-1", "instance": {"instance_id": "a-1"}, "test_result": {"git_patch": PATCH}, "error": None,
     "metadata": {"llm_config": {"model": "owner/model"}}, "history": []},
    {"instance_id": "a-2", "test_result": {}, "error": "stuck", "metadata": {"llm": {"model": "owner/model"}}},
    {"instance": {"instance_id": "a-3"}, "test_result": None, "metadata": None},
    {"instance_id": "a-4", "git_patch": PATCH},
]  # fmt: skip


@pytest.mark.parametrize("is_folder", [False, True])
def test_the_output_of_openhands_is_read(tmp_path, is_folder):
    (tmp_path / "output.jsonl").write_text("\n".join(map(json.dumps, OPENHANDS)))
    assert read_predictions(tmp_path if is_folder else tmp_path / "output.jsonl") == [
        Prediction("a-1", "owner/model", PATCH), Prediction("a-2", "owner/model", ""), Prediction("a-3", "unnamed", ""),
        Prediction("a-4", "unnamed", PATCH),
    ]  # fmt: skip


@pytest.mark.parametrize("layout", [{"all_preds.jsonl": "lines"}, {"preds.json": "rows by id"}, {}])
def test_the_folder_of_a_run_of_swe_agent_is_read(tmp_path, layout):
    for name, form in layout.items():
        (tmp_path / name).write_text(FORMS[form])
    for row in () if layout else ROWS:
        name = row["instance_id"]
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.pred").write_text(json.dumps(row, indent=2))
        (tmp_path / name / f"{name}.traj").write_text("{}")
    assert [(each.instance_id, each.patch) for each in read_predictions(tmp_path)] == [
        ("a-1", PATCH), ("a-2", ""), ("a-3", ""),
    ]  # fmt: skip


def test_the_predictions_of_each_task_are_newer_than_the_file_of_all(tmp_path):
    (tmp_path / "preds.json").write_text(json.dumps({"a-1": {"model_patch": "old"}}))
    (tmp_path / "a-1").mkdir()
    (tmp_path / "a-1/a-1.pred").write_text(json.dumps(ROWS[0]))
    assert [each.patch for each in read_predictions(tmp_path)] == [PATCH]


def test_a_folder_without_predictions_and_a_broken_one_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"preds\.json"):
        read_predictions(tmp_path)
    (tmp_path / "a.pred").write_text("{")
    with pytest.raises(UsageError, match=r"a\.pred, line 1: not valid JSON"):
        read_predictions(tmp_path)


def test_one_row_is_one_prediction(tmp_path):
    (tmp_path / "preds").write_text(json.dumps(ROWS[0]))
    assert len(read_predictions(tmp_path / "preds")) == 1


def test_a_patch_stays_as_it_was_written(tmp_path):
    written = ["\n" + PATCH, PATCH.removesuffix("\n"), PATCH.replace("\n", "\r\n"), " \n"]
    rows = [{"instance_id": f"a-{n}", "model_patch": patch} for n, patch in enumerate(written)]
    (tmp_path / "preds").write_text(json.dumps(rows))
    assert [each.patch for each in read_predictions(tmp_path / "preds")] == written


def test_of_several_predictions_for_a_task_the_last_is_kept():
    rows = [Prediction(name, "m", patch) for name, patch in [("a", "1"), ("b", "2"), ("a", "3")]]
    assert [(each.instance_id, each.patch) for each in keep_last(rows)] == [("a", "3"), ("b", "2")]


BAD = {
    "": "holds no rows with",
    "[]": "holds no rows with",
    "{": "line 1: not valid JSON",
    "3": "line 1: this row is no prediction",
    '{"a": 1}': "row 'a': this row is no prediction",
    '[{"model_patch": ""}]': "row 1: column 'instance_id' is missing",
    '[{"instance_id": "", "model_patch": ""}]': "row 1: column 'instance_id' is empty",
    '{"": {"model_patch": ""}}': "row '': column 'instance_id' is empty",
    '{"instance_id": "a"}': "line 1: column 'model_patch' is missing",
    '[{"instance_id": "a", "model_patch": 3}]': "row 1: column 'model_patch' is not text",
    '[{"instance_id": "a", "model_patch": "", "model_name_or_path": 3}]': "row 1: model_name_or_path is not text",
    '{"instance_id": "a", "model_patch": ""}\n{"instance_id"': "line 2: not valid JSON",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path, text):
    (tmp_path / "preds").write_text(text)
    with pytest.raises(UsageError) as error:
        read_predictions(tmp_path / "preds")
    assert BAD[text] in str(error.value) and "\n" not in str(error.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"preds .*give JSON lines"):
        read_predictions(tmp_path / "preds")
    (tmp_path / "preds").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="UTF-8"):
        read_predictions(tmp_path / "preds")


names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)
patches = st.text(st.characters(codec="utf-8"), max_size=30)


COLUMNS = (
    "instance_id",
    "model_patch",
    "model_name_or_path",
    "test_result",
    "git_patch",
    "instance",
    "metadata",
    "other",
)
cells = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*COLUMNS, "llm", "model"]), inner, max_size=3)
    ),
    max_leaves=6,
)
rows = st.dictionaries(st.sampled_from(COLUMNS), cells, max_size=5)


@given(cells | rows | st.lists(rows | cells, max_size=3))
def test_any_json_is_read_or_refused_in_a_sentence(tmp_path_factory, value):
    file = tmp_path_factory.mktemp("predictions") / "preds.json"
    file.write_text(json.dumps(value))
    try:
        found = read_predictions(file)
    except UsageError as error:
        assert "preds.json" in str(error)
    else:
        assert all(each.instance_id and isinstance(each.patch, str) and each.model for each in found)


@given(st.dictionaries(names, st.tuples(names, patches), min_size=1))
def test_what_is_written_is_read(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("predictions") / "preds.jsonl"
    predictions = [Prediction(name, model, patch) for name, (model, patch) in rows.items()]
    write_predictions(file, predictions)
    assert read_predictions(file) == predictions


@pytest.mark.skipif("TURNSMITH_ROWS" not in os.environ, reason="TURNSMITH_ROWS names no folder of real rows")
@pytest.mark.parametrize("name", ["mini-swe-agent.preds.json", "openhands.list.json"])
def test_real_predictions_are_read(name):
    found = read_predictions(Path(os.environ["TURNSMITH_ROWS"], name))
    assert found and all(each.patch.startswith("diff --git ") for each in found if each.patch)
