"""Sight: names, paths and lines that observations have shown."""

from turnsmith.agent.expert.sight import Sight

WINDOW = """\
[File: /testbed/pkg/shop.py (40 lines total)]
(11 more lines above)
12:def total(prices):
13:    return len(prices)
(27 more lines below)
(Current directory: /testbed, current file: /testbed/pkg/shop.py) bash-$"""
CONTENT = [*[""] * 11, "def total(prices):", "    return len(prices)", *[""] * 27]


def see(text, path=""):
    sight = Sight("/testbed")
    sight.take(text, path)
    return sight


def test_a_window_shows_numbered_lines_of_its_file():
    sight = see(WINDOW)
    assert sight.lines["pkg/shop.py"] == {12: "def total(prices):", 13: "    return len(prices)"}
    assert sight.last_shown == ("pkg/shop.py", 13)
    assert sight.has_seen("pkg/shop.py", 13, CONTENT) and not sight.has_seen("pkg/shop.py", 14, CONTENT)


def test_a_line_that_has_changed_counts_as_unseen():
    assert not see(WINDOW).has_seen("pkg/shop.py", 13, [*CONTENT[:12], "    return sum(prices)", *CONTENT[13:]])


def test_hits_of_a_search_and_places_of_a_traceback_name_lines():
    sight = see("./pkg/shop.py:12:def total(prices):\ntests/test_a.py:7: in test_total\nE   assert 1 == 2")
    assert sight.lines["pkg/shop.py"] == {12: "def total(prices):"}
    assert ("tests/test_a.py", 7) in sight.places
    assert {"pkg/shop.py", "tests/test_a.py"} <= sight.paths
    assert {"total", "test_total"} <= sight.words


def test_numbered_output_belongs_to_the_file_of_the_command():
    assert see("3:x = 1\n/testbed $", "a.py").lines["a.py"] == {3: "x = 1"}
    assert not see("3:x = 1").lines


def test_an_edit_moves_the_lines_below_it():
    sight = see("1:a\n2:b\n3:c", "a.py")
    sight.move("a.py", 2, 2, ["x", "y"])
    assert sight.lines["a.py"] == {1: "a", 2: "x", 3: "y", 4: "c"}
    assert not sight.has_seen("a.py", 5, ["a", "x", "y", "c"])


def test_an_edit_moves_the_places_below_it():
    sight = see("pkg/a.py:3: in total\npkg/b.py:3: in other\npkg/a.py:1: in first")
    sight.move("pkg/a.py", 2, 2, ["x", "y"])
    assert sight.places == {("pkg/a.py", 4), ("pkg/b.py", 3), ("pkg/a.py", 1)}
