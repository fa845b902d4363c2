"""Scoring of tasks by a language model. Scores are stored beside the task file and not requested again."""

import hashlib
import json
import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from string import Template
from typing import Protocol

from turnsmith.curation.rows import TaskRow, count_rows, read_rows
from turnsmith.curation.scores import BEST, NAMES, WORST, read_scores
from turnsmith.runs.folder import append_record, hold, read_records
from turnsmith.tasks.dataset import find_task_file
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import follow
from turnsmith.types import Record

FILE_NAME = "scores.jsonl"
PROMPT = Path(__file__).with_name("scoring.md")
PLACEHOLDERS = {"issue": "problem_statement", "patch": "patch", "tests": "test_patch"}
"""Placeholder in a prompt → column of the task that replaces it."""
MAX_CHARACTERS = 20_000
"""Maximum length of each text in a question (issue, patch, tests); longer texts are cut."""
OBJECT = re.compile(r"\{[^{}]{0,1000}\}")


class Scorer(Protocol):
    """Model that answers questions about task rows."""

    def ask(self, question: str) -> str: ...


class ScoreRecord(Record):
    """Scores that a model gave to one row, as stored beside the task file."""

    instance_id: str
    key: str
    """Digest of the question, by which later runs find the record and do not ask again."""
    scores: dict[str, int]
    """Name → score; empty if the model's answer contained no scores."""


def write_question(row: TaskRow, prompt: Template) -> str:
    """Make the question about a row: the prompt with the row's issue, patch and tests."""
    return prompt.substitute({name: (row.text(column) or "")[:MAX_CHARACTERS] for name, column in PLACEHOLDERS.items()})


def make_key(question: str) -> str:
    """Hash a question. The hash is the key of the stored answer."""
    return hashlib.sha256(question.encode(errors="surrogatepass")).hexdigest()


def score(row: TaskRow, question: str, scorer: Scorer) -> ScoreRecord:
    """Ask the model for a row's scores; ask again once if the answer has none."""
    scores = read_scores_in(scorer.ask(question)) or read_scores_in(scorer.ask(question))
    return ScoreRecord(instance_id=row.instance_id, key=make_key(question), scores=scores)


def read_scores_in(answer: str) -> dict[str, int]:
    """Extract scores from the last JSON object in an answer that contains all score names; empty if there is none."""
    for text in reversed(OBJECT.findall(answer)):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        scores = {name: found.get(name) for name in NAMES}
        if all(type(value) is int and BEST <= value <= WORST for value in scores.values()):
            return scores
    return {}


def score_task_file(
    path: Path, scorer: Scorer, prompt: Template, num_workers: int, limit: int | None, progress: Progress
) -> dict[str, int]:
    """Ask a model to score each unscored task; return task counts by result. Raises UsageError, EngineError."""
    file = find_task_file(path)
    journal = file.with_name(FILE_NAME)
    counts = {"asked": 0, "on_record": 0, "scored_by_the_set": 0, "without_an_answer": 0}
    with journal.open("ab") as held:
        hold(held)
        known = {record.key for record in read_records(journal, ScoreRecord)}
        rows = follow(read_rows(file, limit), progress, f"scoring {path.name}", count_rows(file, limit))
        for record in _ask_all(_select(rows, prompt, known, counts), scorer, num_workers):
            append_record(journal, record)
            counts["asked"] += 1
            counts["without_an_answer"] += not record.scores
    return counts


def _select(
    rows: Iterator[TaskRow], prompt: Template, known: set[str], counts: dict[str, int]
) -> Iterator[tuple[TaskRow, str]]:
    """Yield rows to score, each with its question. Rows with scores, or with a question in `known`, only enter `counts`."""
    for row in rows:
        question = write_question(row, prompt)
        if len(read_scores(row)) == len(NAMES):
            counts["scored_by_the_set"] += 1
        elif make_key(question) in known:
            counts["on_record"] += 1
        else:
            yield row, question


def _ask_all(waiting: Iterator[tuple[TaskRow, str]], scorer: Scorer, num_workers: int) -> Iterator[ScoreRecord]:
    """Score rows with at most `num_workers` concurrent requests; yield the scores in the order of the rows."""
    with ThreadPoolExecutor(num_workers) as pool:
        running: deque[Future[ScoreRecord]] = deque()
        try:
            for row, question in waiting:
                running.append(pool.submit(score, row, question, scorer))
                if len(running) > num_workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def find_key() -> str:
    """Read the API key of the model endpoint from OPENAI_API_KEY; empty if unset."""
    return os.environ.get("OPENAI_API_KEY", "")
