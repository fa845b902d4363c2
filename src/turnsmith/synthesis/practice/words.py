"""Names for generated code: nouns of each kind of module, and invented words, so that no two repositories share their jargon."""

import keyword
import random
import sys

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
"""The nouns of a kind of module. The last two kinds are only ever used in held-out tasks."""

_TAKEN = {noun for nouns in NOUNS.values() for noun in nouns.split()} | sys.stdlib_module_names
"""What no invented word is: a package named like a module of Python's own would hide it from the tests."""

VERBS = "add apply check count draw fill find fit fix get join keep list make mark merge pick read rate rank scale set".split()
ADJECTIVES = "base daily early extra final first full gross inner joint late local main net next old open outer raw spare".split()

_ONSETS = "b bl br c ch cl d dr f fl g gl gr h j k l m n p pl pr qu r s sh sk sl st t tr v w z".split()
_VOWELS = "a e i o u ai ea oo".split()
_CODAS = "b ck d g l ll m n nd nt p r rd rn s sk st t x".split()


def invent_word(rng: random.Random) -> str:
    """A pronounceable word that is in few dictionaries, such as `broost`."""
    word = rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
    return word if is_name(word) and word not in _TAKEN else invent_word(rng)


def draw_words(kind: str, rng: random.Random, num_words: int, invented_share: float) -> list[str]:
    """Distinct names for one module: nouns of its kind, and invented ones."""
    nouns = NOUNS[kind].split()
    rng.shuffle(nouns)
    words: list[str] = []
    while len(words) < num_words:
        word = nouns.pop() if nouns and rng.random() >= invented_share else invent_word(rng)
        if word not in words and is_name(word):
            words.append(word)
    return words


def is_name(word: str) -> bool:
    """False where the word, or its plural, means something else in Python or in the generated code."""
    return not any(form in RESERVED or keyword.iskeyword(form) for form in (word, word + "s"))


RESERVED = {"each", "list", "max", "min", "range", "self", "set", "str", "sum", "test"}
"""Words that the generated code uses itself."""
