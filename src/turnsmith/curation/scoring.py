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
"""Maximum length of each part of a question."""
OBJECT = re.compile(r"\{[^{}]{0,1000}\}")


class Scorer(Protocol):
    """Protocol of a model that answers questions."""

    def ask(self, question: str) -> str:
        """Return the answer to a question."""


class ScoreRecord(Record):
    """Stored answer for one row."""

    instance_id: str
    key: str
    """Digest of the question."""
    scores: dict[str, int]
    """Scores by name; empty if the answer had none."""


def read_prompt(file: Path) -> Template:
    """Read a prompt with $issue, $patch and $tests. Raises UsageError if it is invalid."""
    prompt = Template(read_text(file, "the prompt", "give a text file"))
    if not prompt.is_valid() or "issue" not in prompt.get_identifiers():
        raise UsageError(f"{file} is not a prompt: it needs $issue, may have $patch and $tests, and $$ stands for $")
    if unknown := set(prompt.get_identifiers()) - {"issue", "patch", "tests"}:
        raise UsageError(f"{file} asks for ${min(unknown)}: there is $issue, $patch and $tests")
    return prompt


def write_question(row: TaskRow, prompt: Template) -> str:
    """Fill in the question about a row."""
    columns = {"issue": "problem_statement", "patch": "patch", "tests": "test_patch"}
    return prompt.substitute({name: (row.text(column) or "")[:MAX_CHARACTERS] for name, column in columns.items()})


def make_key(question: str) -> str:
    """Hash a question, as the key of its answer."""
    return hashlib.sha256(question.encode(errors="surrogatepass")).hexdigest()


def score(row: TaskRow, question: str, scorer: Scorer) -> ScoreRecord:
    """Ask for scores of a row; repeat once if the answer has none."""
    scores = read_scores_in(scorer.ask(question)) or read_scores_in(scorer.ask(question))
    return ScoreRecord(instance_id=row.instance_id, key=make_key(question), scores=scores)


def read_scores_in(answer: str) -> dict[str, int]:
    """Extract the three scores from the last JSON object with all of them; else return nothing."""
    for text in reversed(OBJECT.findall(answer)):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        scores = {name: found.get(name) for name in NAMES}
        if all(type(value) is int and BEST <= value <= WORST for value in scores.values()):
            return scores
    return {}
