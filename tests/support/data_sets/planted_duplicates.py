"""Tasks from functions of the standard library, and disguised duplicates of them, all drawn from a seed.

A task edits one function. Its patch is the difference, and its issue consists of words of the function. A duplicate has other
names, other files, its hunks in another order, and a reworded issue.
"""

import ast
import difflib
import random
import re
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from turnsmith.curation.similarity import FIXED

MODULES = (
    "argparse ast bdb calendar cmd codeop collections/__init__ configparser contextlib copy csv dataclasses decimal difflib "
    "doctest email/message enum fileinput fractions ftplib functools gettext glob gzip heapq html/parser http/client imaplib "
    "inspect ipaddress json/decoder json/encoder locale logging/__init__ mailbox mimetypes netrc optparse os pdb pickle "
    "pickletools platform plistlib poplib posixpath pprint profile random reprlib sched selectors shelve shlex shutil smtplib "
    "socket socketserver statistics string subprocess tarfile tempfile textwrap threading timeit tokenize trace traceback "
    "turtle typing unittest/case unittest/mock urllib/parse urllib/request uuid warnings wave weakref xml/dom/minidom zipfile"
).split()
MIN_LINES, MIN_WORDS, MAX_SENTENCES = 8, 60, 16
SYNONYMS = {
    "return": "give back", "returns": "gives back", "value": "content", "values": "contents", "given": "passed",
    "wrong": "incorrect", "call": "invoke", "calling": "invoking", "raise": "throw", "raises": "throws", "if": "whenever",
    "should": "ought to", "method": "routine", "function": "routine", "object": "thing", "string": "text", "list": "sequence",
    "because": "since", "but": "yet", "also": "as well", "used": "employed", "use": "employ", "specified": "stated",
    "argument": "parameter", "arguments": "parameters", "must": "has to", "default": "standard", "new": "fresh",
    "optional": "not required", "create": "make", "number": "amount", "first": "leading", "last": "final",
    "all": "every one of", "contains": "holds", "expected": "hoped for", "noticed": "saw", "output": "outcome",
}  # fmt: skip
OPENINGS = (
    "I noticed something wrong with {name} after an upgrade.", "{name} misbehaves in our service.",
    "There is a regression in {name}.", "The output of {name} is not what the documentation says.",
)  # fmt: skip
OTHER_OPENINGS = (
    "Hello, first of all thanks for this library!",
    "Found during a review.",
    "Filed on behalf of a colleague.",
)
CLOSINGS = ("It worked in the release before.", "Happy to send a patch.", "This blocks our migration.")
NAME = re.compile(r"\b[^\W\d]\w*")


@dataclass(frozen=True)
class Function:
    """Function of the standard library."""

    module: str
    name: str
    start: int
    end: int
    doc: str


@cache
def read_module(module: str) -> tuple[str, ...]:
    path = Path(sysconfig.get_path("stdlib"), f"{module}.py")
    return tuple(path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()


@cache
def find_functions() -> tuple[Function, ...]:
    """Find functions that are long enough to edit and have a docstring."""
    return tuple(
        Function(module, node.name, node.lineno - 1, node.end_lineno, doc)
        for module in MODULES
        for node in ast.walk(ast.parse("\n".join(read_module(module))))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= MIN_LINES
        for doc in [ast.get_docstring(node) or ""]
        if len(doc.split()) >= MIN_WORDS
    )


def make_tasks(seed: int, num: int, name: str) -> list[dict]:
    """Make tasks of different functions, some of one file: small ones change one line, large ones four places."""
    rng = random.Random(f"tasks {seed}")
    functions = rng.sample(find_functions(), num)
    return [make_task(function, rng, f"{name}-{number}") for number, function in enumerate(functions)]


def make_task(function: Function, rng: random.Random, name: str) -> dict:
    before = list(read_module(function.module))
    after = edit(before, function, rng)
    path = f"src/{function.module}.py"
    diff = difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm="")
    patch = "\n".join([f"diff --git a/{path} b/{path}", *diff, ""])
    return {
        "instance_id": name, "repo": f"owner/{name}", "patch": patch, "problem_statement": write_issue(function, rng),
        "base_commit": f"{rng.getrandbits(160):040x}",
    }  # fmt: skip


def edit(lines: list[str], function: Function, rng: random.Random) -> list[str]:
    """Return the file with a few lines of the function changed, doubled, moved or deleted."""
    after = list(lines)
    body = [n for n in range(function.start + 1, function.end) if lines[n].strip()]
    for place in sorted(rng.sample(body, min(len(body), rng.randint(1, 4))), reverse=True):
        kind, indent = rng.randrange(4), re.match(r"\s*", after[place])[0]
        donor = lines[rng.choice(body)].strip()
        if kind == 0:
            del after[place]
        elif kind == 1:
            after.insert(place, f"{indent}if {rng.choice(NAME.findall(donor) or ['x'])} is None:")
        elif kind == 2:
            after[place] = f"{indent}{donor}  # {rng.randrange(1000)}"
        else:
            after[place] = after[place].replace("(", f"({rng.randrange(100)}, ", 1) + f" + {rng.randrange(1000)}"
    return after


def write_issue(function: Function, rng: random.Random) -> str:
    sentences = split_sentences(function.doc)
    start = rng.randrange(max(1, len(sentences) - MAX_SENTENCES))
    told = sentences[start : start + MAX_SENTENCES]
    return " ".join([rng.choice(OPENINGS).format(name=f"`{function.name}`"), *told, rng.choice(CLOSINGS)])


def split_sentences(text: str) -> list[str]:
    return [" ".join(piece.split()) for piece in re.split(r"(?<=[.:!?])\s+|\n\n", text) if piece.strip()]


def disguise(row: dict, seed: int, name: str, ways: frozenset[str] = frozenset({"patch", "issue"})) -> dict:
    """Return a duplicate from another repository with a changed patch, a changed issue, or both."""
    rng = random.Random(f"disguise {seed} {row['instance_id']}")
    twin = {**row, "instance_id": name, "repo": f"somebody/{name}", "base_commit": f"{rng.getrandbits(160):040x}"}
    if "patch" in ways:
        twin["patch"] = shuffle_hunks(rename(row["patch"], rng), rng)
    if "issue" in ways:
        twin["problem_statement"] = reword(row["problem_statement"], rng)
    return twin


def rename(patch: str, rng: random.Random) -> str:
    """Replace each chosen name consistently, including file names."""
    names: dict[str, str] = {}

    def swap(match: re.Match) -> str:
        old = match[0]
        return old if old in FIXED else names.setdefault(old, f"v_{rng.getrandbits(32):x}")

    lines = patch.split("\n")
    path = f"lib/m_{rng.getrandbits(32):x}/inner.py"
    headers = {0: f"diff --git a/{path} b/{path}", 1: f"--- a/{path}", 2: f"+++ b/{path}"}
    body = [line if line.startswith("@@") else line[:1] + NAME.sub(swap, line[1:]) for line in lines]
    return "\n".join(headers.get(number, line) for number, line in enumerate(body))


def shuffle_hunks(patch: str, rng: random.Random) -> str:
    """Reorder and move the hunks, each as if it belonged to its own file."""
    head, *hunks = re.split(r"^(?=@@ )", patch, flags=re.MULTILINE)
    rng.shuffle(hunks)
    shift = rng.randrange(500)
    moved = [
        re.sub(r"^@@ -(\d+)(.*?) \+(\d+)", lambda m: f"@@ -{int(m[1]) + shift}{m[2]} +{int(m[3]) + shift}", hunk)
        for hunk in hunks
    ]
    return "".join(head + (hunk if hunk.endswith("\n") else hunk + "\n") for hunk in moved)


def reword(issue: str, rng: random.Random) -> str:
    """Reorder the sentences, drop a short one, replace words by synonyms, and change the opening."""
    _, *sentences = split_sentences(issue)
    rng.shuffle(sentences)
    if len(sentences) > 3:
        sentences.remove(min(sentences, key=len))
    words = " ".join(sentences).split(" ")
    return " ".join([rng.choice(OTHER_OPENINGS), *(SYNONYMS.get(word.lower(), word) for word in words)])
