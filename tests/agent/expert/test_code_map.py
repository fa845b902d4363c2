"""Map of the code: definitions with their lines, names they mention, and distances between them."""

from turnsmith.agent.expert.code_map import CodeMap, find_enclosing, list_definitions

SHOP = '''\
from tools import add as plus

RATE = 3


class Basket(Base):
    """Prices."""

    limit = 5

    def total(self):
        return plus(self.prices) * RATE


def report(basket):
    return basket.total()
'''


def test_definitions_have_kinds_lines_and_names():
    found = {each.name: each for each in list_definitions("shop.py", SHOP)}
    assert [(each.kind, each.name, each.first, each.last) for each in found.values()] == [
        ("name", "plus", 1, 1),
        ("name", "RATE", 3, 3),
        ("class", "Basket", 6, 12),
        ("name", "limit", 9, 9),
        ("def", "total", 11, 12),
        ("def", "report", 15, 16),
    ]
    assert found["plus"].uses == {"add"}
    assert found["total"].uses == {"plus", "self", "prices", "RATE"}
    assert found["Basket"].uses == {"Base", "total"}


def test_the_innermost_definition_encloses_a_line():
    definitions = list_definitions("shop.py", SHOP)
    names = [getattr(find_enclosing(definitions, line), "name", None) for line in (2, 3, 7, 12, 14)]
    assert names == [None, "RATE", "Basket", "total", None]


def test_distances_count_the_definitions_between_a_name_and_the_goal():
    code = CodeMap({"shop.py": SHOP, "tools.py": "def add(values):\n    return sum(values)\n", "notes.txt": "def x(:"})
    goal = next(each for each in code.definitions if each.name == "add")
    distances = {each.name: steps for each, steps in code.measure_distances(goal).items()}
    assert distances == {"add": 0, "plus": 1, "total": 2, "report": 3, "Basket": 3}


def test_files_that_are_not_python_have_no_definitions():
    assert list_definitions("shop.md", SHOP) == list_definitions("shop.py", "def (:") == []
