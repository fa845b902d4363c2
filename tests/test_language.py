"""Language of docstrings and pages: first words, and length of sentences. ruff checks mood and full stops (D401, D415)."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [file for folder in ("src", "bench", "scripts", "tests") for file in sorted((ROOT / folder).rglob("*.py"))]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
MAX_WORDS = 25

QUESTION_WORDS = set("What Whether Who Whose Which Where How When Why Is Are Does Can Of Those That These".split())
NO_VERBS = set(
    """A After All An Another Any As At Before Both By Data Each Either Every Everything False First For From If In Into Its
    It Last More Most Names Neither No None Nobody Nothing On One Only Others Our Same So Some Such The Their Them Then There They
    This To True Under Until We With Without""".split()
)
"""First words of noun phrases; a function's docstring starts with a verb in the imperative."""
VERBS_WITH_S = {
    "Access",
    "Address",
    "Bypass",
    "Compress",
    "Cross",
    "Discuss",
    "Dismiss",
    "Express",
    "Guess",
    "Pass",
    "Press",
    "Process",
}
"""Verbs in the imperative that end in s."""


def list_docstrings(file):
    """Return (kind, name, line, text) of all docstrings, including those below attributes."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for position, statement in enumerate(body if isinstance(body := getattr(node, "body", None), list) else []):
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    kind = describe(node) if position == 0 else "attribute"
                    found.append((kind, getattr(node, "name", ""), statement.lineno, text.strip()))
    return found


def describe(node):
    """Return the kind of a definition; properties may start with a noun."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
            return "property" if is_property else "function"
    return type(node).__name__


def first_word(text):
    return re.split(r"[\s:;,.]", text, maxsplit=1)[0]


def list_sentences(text):
    """Yield the sentences of paragraphs, without code, tables, lists, headings and links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "X", text))
    for paragraph in re.split(r"\n\s*\n", text):
        if not re.match(r"\s*([-*|#+<]|\d+[.)]|    |\S+ {2,})", paragraph):
            yield from re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split()))


def count_words(sentence):
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


@pytest.mark.parametrize("folder", ["src", "bench", "scripts", "tests"])
def test_no_docstring_starts_with_a_question_word(folder):
    files = [file for file in FILES if file.is_relative_to(ROOT / folder)]
    starts = {
        f"{file.relative_to(ROOT)}:{line}": text[:60] for file in files for _, _, line, text in list_docstrings(file)
    }
    assert {place: text for place, text in starts.items() if first_word(text) in QUESTION_WORDS} == {}


def test_function_docstrings_start_with_a_verb():
    files = [file for file in FILES if not file.is_relative_to(ROOT / "tests")]
    starts = {
        f"{file.relative_to(ROOT)}:{line}": text[:60]
        for file in files
        for kind, _, line, text in list_docstrings(file)
        if kind == "function"
    }
    assert {place: text for place, text in starts.items() if not is_verb(first_word(text))} == {}


def is_verb(word):
    """Return True for a capitalised word that is neither a noun marker nor in the third person or plural."""
    return word[:1].isupper() and word not in NO_VERBS and (not word.endswith("s") or word in VERBS_WITH_S)


def test_sentences_of_docstrings_have_at_most_25_words():
    sentences = {
        f"{file.relative_to(ROOT)}:{line}": sentence
        for file in FILES
        for _, _, line, text in list_docstrings(file)
        for sentence in list_sentences(text)
        if count_words(sentence) > MAX_WORDS
    }
    assert sentences == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_of_pages_have_at_most_25_words(page):
    text = page.read_text(encoding="utf-8")
    assert [sentence for sentence in list_sentences(text) if count_words(sentence) > MAX_WORDS] == []


def test_entries_of_decisions_have_at_most_five_lines():
    text = (ROOT / "docs/decisions.md").read_text(encoding="utf-8")
    entries = {
        entry.partition("\n")[0]: entry.partition("\n")[2] for entry in re.split(r"^#+ ", text, flags=re.MULTILINE)
    }
    lines = {heading: sum(bool(line.strip()) for line in body.splitlines()) for heading, body in entries.items()}
    assert {heading: count for heading, count in lines.items() if count > 5} == {}
