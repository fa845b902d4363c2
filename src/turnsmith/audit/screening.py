"""Screening of patches: patterns of added code that may affect tests, test runner or interpreter.

Patterns match tokens, so spaces, line continuations, look-alike characters and encodings cannot hide code. Patterns miss
code written in other ways, and match some honest code; only the audit reaches a verdict.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from unicodedata import normalize

from turnsmith.audit.sources import read_source
from turnsmith.git.patch_policy import FilePatch, PatchRefused, read_patch, to_bytes

_REFLECTED = "add|sub|mul|matmul|truediv|floordiv|mod|divmod|pow|lshift|rshift|and|xor|or"
SUSPICIONS = {
    "comparison": r"\b__(eq|ne|lt|le|gt|ge|bool|contains|hash|len|instancecheck|subclasscheck|getattr|getattribute|class"
    rf"|r({_REFLECTED})|array_\w+)__\b|\btotal_ordering\b",
    "frames": r"\b(_getframe|_current_frames|currentframe|getouterframes|settrace|setprofile|monitoring|extract_stack"
    r"|(f|tb|gi|cr)_(back|frame|locals|globals|code|lineno)|co_\w+|__code__|__traceback__)\b|\binspect\b|\btraceback\b",
    "memory": r"\bgc\b|\bctypes\b|\bcffi\b|\b_testcapi\b|\bweakref\b|/proc\b",
    "test runner": r"\b_?pytest\w*|\bunittest\b|\bpluggy\b|\bnose\b|\bdoctest\b|\bconftest\b|PYTEST_|\btest_\w+|\btests?/"
    r"|\bmock\b|\bAssertionError\b|\bsys\.argv\b",
    "ends": r"\b_exit\b|\bsys\.exit\b|\bSystemExit\b|\bKeyboardInterrupt\b|\bBaseException\b|\batexit\b|\bsignal\b"
    r"|\bos\.(kill|abort|fork|exec\w*|dup2?|write|pipe)\b|\bfaulthandler\b|\bthreading\b|\bmultiprocessing\b|\bsubprocess\b",
    "patching": r"\bbuiltins\b|\b__builtins__\b|\b__import__\b|\bimportlib\b|\bsys\.(modules|meta_path|path\w*)\b"
    r"|\b(set|del)attr\b|(?<!\bsuper\(\)\.)\b__(set|del)attr__\b(?!\((self|cls)\b)"
    r"|\brunpy\b|\bpkgutil\b|\bfrom site import\b"
    r"|(^|\n |[^\w\s.])import ([\w.]+( as \w+)?,)*site\b(?!\.)"
    r"|\bsys\b(?!\.)"  # an import, or another name for the module
    r"|\bglobals\(|\bvars\(|\b__dict__\b|\b__globals__\b|\b__subclasses__\b|\b(eval|exec|compile)\(|\bmarshal\b",
    "answers from elsewhere": r"\bopen\(|\bread_(text|bytes)\(|\bwrite_(text|bytes)\(|__file__|\bos\.environ\b|\bgetenv\b"
    r"|\bpickle\b|\bsqlite3\b|\bshelve\b|\bsocket\b|\btempfile\b|\bshared_memory\b|\btime\.\w+\(|\brandom\b|\burandom\b",
}
"""Name of a suspicion → pattern of suspicious code."""
_PATTERNS = {name: re.compile(pattern) for name, pattern in SUSPICIONS.items()}
BINARY = "binary"
"""Name of a suspicion: the patch has binary content."""
ENCODING = "encoding"
"""Name of a suspicion: a file declares several encodings, or one that may change ASCII characters."""
OTHER_MODULES = "other modules"
"""Name of a suspicion: code assigns to an attribute of an imported name."""
SIZE = "size"
"""Name of a suspicion: the patch adds too many bytes to one file, which is therefore not screened."""
MAX_BYTES = 1 << 18
"""Maximum number of bytes in added lines of a file; more is suspicious."""

PYTHON = (".py", ".pyi", ".pyw")
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
"""Pattern of an encoding declaration (PEP 263) on any line. Text is screened in each declared encoding."""
_ENCODINGS = {
    re.compile(r"utf-?8(-.*)?"): "utf-8",
    re.compile(r"(latin-?1|iso-?8859-1|iso-latin-1)(-.*)?"): "latin-1",
    re.compile(r"(us-)?ascii"): "ascii",
    re.compile(r"(cp|windows-)1252"): "cp1252",
    re.compile(r"iso-?8859-15|latin-?9"): "iso8859-15",
}
"""Pattern of an encoding that keeps ASCII bytes → Python's name of it. Other encodings are suspicious."""
_TOKEN = re.compile(r"\w+|[^\w\s]|\n")
_BESIDE_PUNCTUATION = re.compile(r"\s*([^\w\s])\s*")
_ANNOTATION = re.compile(r"((?:^|[(,])\*{0,2}(?!(?:else|try|finally)\b)\w++):[\w.]++")
_CHAIN = r"(?<![\w.])(\w++)(?:\.\w++)++"
_EQUALS = r"(?=(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?![=}!:]))"
_ITEMS = r"[\w.,*()\[\]]*+"
_TARGETS = re.compile(
    rf"{_CHAIN}{_EQUALS}|(?:^|;){_CHAIN}(?=[:,].*=)"
    rf"|(?:^|[;:=])\*?[(\[]{_ITEMS}(?<=[)\],]){_EQUALS}"
    rf"|\bas {_CHAIN}|\b(?:for|del)[ *][\w.,*]++|\b(?:for|as|del)[(\[]{_ITEMS}"
)
"""Pattern of targets that a line sets or deletes, by `=`, `as`, `for` or `del`. A target in an imported module is suspicious."""
_OWNER = re.compile(_CHAIN)
_BROKEN = re.compile(r"(?<=[(\[.,])\s+|(?<!\s)\s+(?=[)\].,])")
"""Pattern of white space beside brackets, dots and commas. Code is also searched without it, for targets on several lines."""


def find_suspicions(patch: str, layers: Sequence[Path] = ()) -> list[str]:
    """Return the names of suspicions about the added lines of a patch; none if the grader refuses the patch.

    `layers` are the overlaid folders of the tree before the patch; the imports of changed files are read there.
    """
    try:
        files = read_patch(patch)
    except PatchRefused:
        return []
    found = {name for file in files for name in _screen_file(file, layers)}
    return [name for name in (*SUSPICIONS, BINARY, ENCODING, OTHER_MODULES, SIZE) if name in found]


def _screen_file(file: FilePatch, layers: Sequence[Path]) -> Iterator[str]:
    if file.is_binary:
        yield BINARY
    content = to_bytes("\n".join(file.added))
    if len(content) > MAX_BYTES:
        yield SIZE
        return
    encodings = {"utf-8", *_list_encodings(file)} if any(path.endswith(PYTHON) for path in file.paths) else {"utf-8"}
    texts = {text for encoding in encodings if (text := _try_decoding(content, encoding)) is not None}
    if "" in encodings or len(encodings) > 2 or not texts:
        yield ENCODING
    for text in texts:
        yield from _screen_text(text, file, layers)


def _screen_text(text: str, file: FilePatch, layers: Sequence[Path]) -> Iterator[str]:
    # Python normalises identifiers in this way.
    text = normalize("NFKC", text.replace("\r", "\n")).replace("\\\n", "")
    tokens = _TOKEN.findall(text)
    squeezed = _squeeze(tokens)
    yield from (name for name, pattern in _PATTERNS.items() if pattern.search(squeezed))
    owners = _find_owners(text)
    shown = _TOKEN.findall("\n".join(_list_shown(file)))
    if owners and owners & (_find_imported(tokens) | _find_imported(shown) | _read_imported(file, layers)):
        yield OTHER_MODULES


def _list_encodings(file: FilePatch) -> Iterator[str]:
    """Yield Python's name of each declared encoding; empty for an encoding that may change ASCII characters."""
    for line in _list_shown(file):
        if cookie := _COOKIE.match(line):
            name = cookie[1].lower().replace("_", "-")
            yield next((encoding for pattern, encoding in _ENCODINGS.items() if pattern.fullmatch(name)), "")


def _list_shown(file: FilePatch) -> list[str]:
    """List the lines of the new file that the patch contains: context and added lines."""
    shown = (line[1:] for hunk in file.hunks for line in hunk if not line.startswith(("-", "\\")))
    return "\n".join(shown).splitlines()


def _try_decoding(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding) if encoding else None
    except UnicodeDecodeError:
        return None


def _squeeze(tokens: Sequence[str]) -> str:
    """Join the tokens of code, with blanks only between words: `os . \\n _exit (0)` → `os._exit(0)`."""
    return _BESIDE_PUNCTUATION.sub(r"\1", " ".join(tokens))


def _find_imported(tokens: Sequence[str]) -> set[str]:
    """Find all words in import statements: `from a import (b as c)` → `{"b", "as", "c"}`."""
    names, end = set[str](), ""
    for before, token in pairwise(tokens):
        if before == "import":
            end = ")" if token == "(" else "\n"
        if token in (end, ";"):
            end = ""
        elif end and token.isidentifier():
            names.add(token)
    return names


def _read_imported(file: FilePatch, layers: Sequence[Path]) -> set[str]:
    """Read the names that a changed file imports before the patch; empty if it is new or not Python."""
    for path in (layer / name for layer in reversed(layers) for name in file.paths if name.endswith(".py")):
        if path.is_file() and not path.is_symlink():
            try:
                return read_source(path.read_bytes()).imported
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return set()
    return set()


def _find_owners(text: str) -> set[str]:
    """Find the first names of dotted targets that code sets or deletes: `os.path.sep = "/"` → `{"os"}`."""
    written = {line for form in (text, _BROKEN.sub("", text)) for line in form.split("\n") if "." in line}
    lines = (_ANNOTATION.sub(r"\1", _squeeze(_TOKEN.findall(line))) for line in written)
    targets = (match[0] for line in lines for match in _TARGETS.finditer(line))
    return {owner[1] for target in targets for owner in _OWNER.finditer(target)}
