"""Generator of practice repositories, each a small package of several modules with docstrings and pytest tests."""

import keyword
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turnsmith.synthesis.practice.functions import SHAPES, Function

INVENTED_SHARE = 0.35
"""Share of invented words among the names that a module uses."""

NOUNS: dict[str, str] = {
    "ledgers": "amount balance charge cost credit debit deposit fee gain income loan margin price profit rate rent "
    "salary saving share tax tip total value wage",
    "limits": "bound ceiling current demand depth draft flow force grade heat length level load mass power pressure "
    "pulse range reach score speed strain stress volume",
    "choices": "badge choir color crew desk format gate guest lane layer locale member mode owner phase plan queue rank "
    "role room seat stage team tier",
    "tallies": "basket batch box bundle carton case count crate entry item lot number order pack pair part piece point "
    "sample sheet stack unit visit vote",
    "labels": "author body caption chapter code field head heading key line mark name note number page prefix section "
    "suffix tag text title topic word writer",
    "blends": "acid alloy base brine clay dose drop extract flour glaze grain juice malt oil paste powder salt seed "
    "solvent starch sugar syrup water yeast",
    "voyages": "anchor berth bridge cabin cargo coast course deck dock fare ferry freight harbor hull knot leg mast "
    "mile port route sail tide toll vessel",
    "orchards": "acre apple bloom branch bush cherry crop fence frost fruit garden harvest hedge hive ladder leaf "
    "orchard pear plum root row soil stem trunk",
}
"""Kind of module → nouns for its names. The last two kinds occur only in held-out tasks."""

_TAKEN = {noun for nouns in NOUNS.values() for noun in nouns.split()} | sys.stdlib_module_names
"""Words that are never invented as names: nouns, and standard modules, which a package of that name would hide."""

VERBS = "add apply check count draw fill find fit fix get join keep list make mark merge pick read rate rank scale set".split()
ADJECTIVES = "base daily early extra final first full gross inner joint late local main net next old open outer raw spare".split()

_ONSETS = "b bl br c ch cl d dr f fl g gl gr h j k l m n p pl pr qu r s sh sk sl st t tr v w z".split()
_VOWELS = "a e i o u ai ea oo".split()
_CODAS = "b ck d g l ll m n nd nt p r rd rn s sk st t x".split()

RESERVED = {"each", "list", "max", "min", "range", "self", "set", "str", "sum", "test"}
"""Names that the generated code uses itself, and that are therefore not drawn as variable names."""


@dataclass(frozen=True)
class Module:
    """Module of a practice repository."""

    name: str
    """Name of the module, which is also its kind, for example `ledgers`."""
    functions: tuple[Function, ...]


@dataclass(frozen=True)
class PracticeRepository:
    """Generated repository: its modules, and its files as path → text."""

    name: str
    modules: tuple[Module, ...]
    files: dict[str, str]


def make_repository(kinds: tuple[str, ...], difficulty: float, seed: str) -> PracticeRepository:
    """Generate a practice repository. Higher `difficulty` means more rules and modules, and fewer messages in tests."""
    rng = random.Random(f"practice {seed}")
    name = invent_word(rng)
    drawn = rng.sample(kinds, min(len(kinds), 2 + round(2 * difficulty)))
    modules = tuple(make_module(kind, difficulty, rng) for kind in drawn)
    return PracticeRepository(name, modules, write_files(name, modules, difficulty, rng))


def make_module(kind: str, difficulty: float, rng: random.Random) -> Module:
    """Generate a module with two to four functions."""
    num_functions = rng.randint(2, 3) + round(difficulty)
    words = draw_words(kind, rng, 2 + num_functions * 6, INVENTED_SHARE)
    made = []
    for index in range(num_functions):
        name = f"{rng.choice(VERBS)}_{rng.choice([*ADJECTIVES, words[0]])}_{words[1]}" if rng.random() < 0.2 else ""
        name = name or f"{rng.choice(VERBS)}_{words[2 + index * 6 + 5]}"
        shape = rng.choice(SHAPES[kind])
        made.append(shape(name, words[2 + index * 6 :][:6], draw_num_rules(difficulty, rng), rng))
    distinct = {function.name: function for function in made}
    return Module(kind, tuple(distinct.values()))


def draw_num_rules(difficulty: float, rng: random.Random) -> int:
    """Draw a function's number of rules, from 1 to 3, larger for higher difficulty."""
    return 1 + (rng.random() < 0.15 + 0.7 * difficulty) + (rng.random() < 0.5 * difficulty)


def write_files(name: str, modules: tuple[Module, ...], difficulty: float, rng: random.Random) -> dict[str, str]:
    """Generate all files of a practice repository: path → text."""
    files = {
        "README.md": f"# {name}\n\nModules: {', '.join(module.name for module in modules)}.\n",
        f"{name}/__init__.py": f'"""The {name} package."""\n',
        "conftest.py": "",
    }
    for module in modules:
        files[f"{name}/{module.name}.py"] = write_module(module)
        files[f"tests/test_{module.name}.py"] = write_tests(name, module, difficulty, rng)
    return files


def write_module(module: Module) -> str:
    return "\n\n".join([f'"""Functions on {module.name}."""\n', *(function.source for function in module.functions)])


def write_tests(package: str, module: Module, difficulty: float, rng: random.Random) -> str:
    """Generate the test file of a module. The share of tests with an assertion message is 1 − `difficulty`."""
    names = ", ".join(function.name for function in module.functions)
    tests = [write_test(function, rng.random() >= difficulty, rng) for function in module.functions]
    return "\n\n".join([f"from {package}.{module.name} import {names}\n", *tests])


def write_test(function: Function, has_message: bool, rng: random.Random) -> str:
    """Generate a test that calls a function with four sets of arguments. The expected values come from running the function."""
    call = load_function(function)
    cases = [function.draw_arguments(rng) for _ in range(4)]
    table = "".join(f"        ({arguments!r}, {call(*arguments)!r}),\n" for arguments in cases)
    message = f", {function.sentence!r}" if has_message else ""
    return (
        f"def test_{function.name}():\n    cases = [\n{table}    ]\n"
        f"    for arguments, expected in cases:\n        assert {function.name}(*arguments) == expected{message}\n"
    )


def load_function(function: Function) -> Callable[..., object]:
    """Execute a generated function's source and return the Python function."""
    namespace: dict[str, Any] = {}
    exec(function.source, namespace)
    return namespace[function.name]


def invent_word(rng: random.Random) -> str:
    """Invent a pronounceable word, for example `broost`."""
    word = rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
    return word if is_name(word) and word not in _TAKEN else invent_word(rng)


def draw_words(kind: str, rng: random.Random, num_words: int, invented_share: float) -> list[str]:
    """Draw distinct names for one module: nouns of its kind, and invented words."""
    nouns = NOUNS[kind].split()
    rng.shuffle(nouns)
    words: list[str] = []
    while len(words) < num_words:
        word = nouns.pop() if nouns and rng.random() >= invented_share else invent_word(rng)
        if word not in words and is_name(word):
            words.append(word)
    return words


def is_name(word: str) -> bool:
    """Return True if a word and its plural can be names: reserved neither in Python nor in the generated code."""
    return not any(form in RESERVED or keyword.iskeyword(form) for form in (word, word + "s"))
