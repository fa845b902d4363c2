from turnsmith.audit.renaming import draw_renaming
from turnsmith.audit.sources import Source, read_source, rename_words
from turnsmith.types import Edit
from turnsmith.types.edits import replace_spans

TEXT = '''class Helper: ...


class TestOne(Helper):
    """About TestOne.test_b and test_a."""

    def test_b(self):
        assert self.test_a and "test_a"  # test_a

    test_a = 3

    def test_a(self): ...


def test_ä(): ...
def check_c(): ...
'''


def test_names_change_in_code_but_not_in_strings_and_comments():
    functions = ["t/a.py::TestOne::test_b", "t/a.py::TestOne::test_a", "t/a.py::test_ä", "t/a.py::check_c"]
    renaming = draw_renaming({"t/a.py": Source(TEXT)}, functions)
    written = renaming.write({"t/a.py": TEXT})
    new = renaming.files["t/a.py"]
    assert new.startswith("t/test_") and written["t/a.py"] == ""
    names = renaming.names["t/a.py"]
    assert names.keys() == {"TestOne", "test_a", "test_b", "test_ä"}
    assert sorted(names, key=names.get) == sorted(names), "the order stays"
    assert f'assert self.{names["test_a"]} and "test_a"  # test_a' in written[new]
    assert f"class {names['TestOne']}(Helper)" in written[new] and '"""About TestOne.test_b' in written[new]
    assert renaming.rename(functions[0]) == f"{new}::{names['TestOne']}::{names['test_b']}"
    assert renaming.rename(functions[3]) == f"{new}::check_c"
    assert [renaming.is_renamed(function) for function in functions] == [True, True, True, False]


def test_names_differ_in_each_run():
    drawn = [draw_renaming({"a.py": Source(TEXT)}, ["a.py::test_ä"]) for _ in range(2)]
    assert drawn[0] != drawn[1]


def test_edits_count_characters_not_bytes():
    assert replace_spans("äbc", [Edit(1, 2, "X"), Edit(0, 0, "("), Edit(3, 3, ")")]) == "(äXc)"
    source = Source("x = 'ä'; y = 2\n")
    second = source.tree.body[1].value
    assert replace_spans(source.text, [source.replace(second, "3")]) == "x = 'ä'; y = 3\n"


def test_words_are_renamed_in_all_kinds_of_lines():
    text = read_source(b"\xef\xbb\xbfa = 1\r\nb = a; '''a\r\na'''\rc = a \\\n + a\n").text
    assert rename_words(text, {"a": "zz"}) == "zz = 1\nb = zz; '''a\na'''\nc = zz \\\n + zz\n"
