"""Scoring of rows by a model, for data sets without scores."""

import hashlib
import json
import re
from pathlib import Path
from string import Template
from typing import Protocol

from turnsmith.curation.rows import TaskRow
from turnsmith.curation.scores import BEST, NAMES, WORST
from turnsmith.errors import UsageError
from turnsmith.io.files import read_text
from turnsmith.types import Record

FILE_NAME = "scores.jsonl"
PROMPT = Path(__file__).with_name("scoring.md")
MAX_CHARACTERS = 20_000
"""Maximum length of the issue, the patch and the tests in a question; longer texts are cut."""
OBJECT = re.compile(r"\{[^{}]{0,1000}\}")


class Scorer(Protocol):
    """Model that answers questions about task rows."""

    def ask(self, question: str) -> str:
        """Return the answer to a question."""


class ScoreRecord(Record):
    """Scores that a model gave to one row, as stored beside the task file."""

    instance_id: str
    key: str
    """Digest of the question."""
    scores: dict[str, int]
    """Scores by name; empty if the model's answer had none."""


def read_prompt(file: Path) -> Template:
    """Read a prompt file with placeholders $issue, $patch and $tests. Raises UsageError if it is invalid."""
    prompt = Template(read_text(file, "the prompt", "give a text file"))
    if not prompt.is_valid() or "issue" not in prompt.get_identifiers():
        raise UsageError(
            f"{file} is not a prompt: write $issue, optionally $patch and $tests, and $$ for a dollar sign"
        )
    if unknown := set(prompt.get_identifiers()) - {"issue", "patch", "tests"}:
        raise UsageError(f"{file} uses ${min(unknown)}: only $issue, $patch and $tests are known")
    return prompt


def write_question(row: TaskRow, prompt: Template) -> str:
    """Fill the issue, patch and tests of a row into the prompt."""
    columns = {"issue": "problem_statement", "patch": "patch", "tests": "test_patch"}
    return prompt.substitute({name: (row.text(column) or "")[:MAX_CHARACTERS] for name, column in columns.items()})


def make_key(question: str) -> str:
    """Hash a question, as the key of its answer."""
    return hashlib.sha256(question.encode(errors="surrogatepass")).hexdigest()


def score(row: TaskRow, question: str, scorer: Scorer) -> ScoreRecord:
    """Ask the model for a row's scores; ask again once if the answer has none."""
    scores = read_scores_in(scorer.ask(question)) or read_scores_in(scorer.ask(question))
    return ScoreRecord(instance_id=row.instance_id, key=make_key(question), scores=scores)


def read_scores_in(answer: str) -> dict[str, int]:
    """Extract scores from the last JSON object of an answer that has all of them; empty if no object has."""
    for text in reversed(OBJECT.findall(answer)):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        scores = {name: found.get(name) for name in NAMES}
        if all(type(value) is int and BEST <= value <= WORST for value in scores.values()):
            return scores
    return {}
