"""Jaccard similarity, 0 to 1, of patches and of issues by their shingles.

Shingles of a patch are runs of tokens within a hunk; file names and the order of hunks have no effect. Identifiers are replaced
by numbers in order of first occurrence in their line, so renaming has no effect either. Shingles of an issue are its words.
"""

import builtins
import keyword
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence

from datasketch import MinHash

from turnsmith.git.patches import read_hunks

Shingles = frozenset[int]
TOKEN = re.compile(r"[^\W\d]\w*|\d[\w.]*|[^\w\s]+")
OTHER_LANGUAGES = (
    "public private protected static final void int long char float double bool boolean string struct enum interface "
    "func fn let const var function new this null nil true false undefined switch case default do throw throws catch "
    "package module use impl trait match mut pub defer go chan range map typeof instanceof extends implements namespace "
    "template typename auto unsigned sizeof extern inline virtual override require module exports"
)
FIXED = frozenset([*keyword.kwlist, *dir(builtins), "self", "cls", *OTHER_LANGUAGES.split()])
"""Keywords and built-in names. They are compared as they are; other identifiers are replaced by numbers."""
RUN_TOKENS = 5
"""Number of tokens in a shingle of a patch."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
STOP_WORDS = frozenset(
    "a about all also am an and any are as at be because been before bug but by can code could did do does done each error "
    "example expected fail fails file following for from get give given got had happens has have he how i if in instead into "
    "is issue it its just last like line make may me most my no not now of on one only or other our out output over please "
    "problem py python reproduce result return returns run same see seems should so some steps such than that the their them "
    "then there these they thing this those to traceback trying up us use used user using version want was we were what when "
    "where which while who why will with without work works would wrong you your actual behavior behaviour call called".split()
)
"""Words of English and of issue templates that are ignored when issues are compared."""
ENDINGS = re.compile(r"(?:ing|ed|es|s)$")
MIN_STEM = 4
MIN_SHINGLES = {"patch": 12, "issue": 8}
"""Minimum numbers of shingles; patches or issues with fewer are not compared."""
NUM_HASHES = 126


def shingle_patch(patch: str) -> Shingles:
    """Return hashes of the runs of five tokens in a patch; empty if the patch is too short to compare."""
    found = frozenset(shingle for lines in read_hunks(patch) for shingle in _cut(list(_tokenize(lines))))
    return found if len(found) >= MIN_SHINGLES["patch"] else frozenset()


def _tokenize(lines: Sequence[str]) -> Iterator[str]:
    """Yield the tokens of a hunk. In each line, the first identifier becomes `$0`, the next one `$1`, and so on."""
    for line in lines:
        places: dict[str, str] = {}
        tokens = TOKEN.findall(line[1:])
        if tokens:
            yield "±" if line[:1] in ("+", "-") else " "
        for token in tokens:
            is_chosen = token.isidentifier() and token not in FIXED
            yield places.setdefault(token, f"${len(places)}") if is_chosen else token


def _cut(tokens: list[str]) -> Iterator[int]:
    for start in range(max(1, len(tokens) - RUN_TOKENS + 1)):
        yield _hash(" ".join(tokens[start : start + RUN_TOKENS]))


def shingle_issue(text: str) -> Shingles:
    """Return hashes of the words in an issue, without stop words; empty if the issue is too short to compare."""
    words = {word.lower() for word in WORD.findall(text)}
    found = frozenset(_hash(_stem(word)) for word in words if len(word) > 1 and word not in STOP_WORDS)
    return found if len(found) >= MIN_SHINGLES["issue"] else frozenset()


def _stem(word: str) -> str:
    stem = ENDINGS.sub("", word)
    return stem if len(stem) >= MIN_STEM else word


def _hash(text: str) -> int:
    return zlib.crc32(text.encode(errors="surrogatepass"))


def measure_likeness(one: Shingles, other: Shingles) -> float:
    """Return the Jaccard similarity of two shingle sets."""
    return len(one & other) / len(one | other) if one and other else 0.0


def sketch(shingles: Iterable[int]) -> MinHash:
    """Build the MinHash of a set of shingles."""
    made = MinHash(num_perm=NUM_HASHES, hashfunc=_same)
    made.update_batch(shingles)
    return made


def _same(number: int) -> int:
    return number
