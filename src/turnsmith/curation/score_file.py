"""Scoring of a task file by a model endpoint. Scores are stored beside the file and not requested again."""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from string import Template

from turnsmith.curation.files import stream_rows
from turnsmith.curation.rows import TaskRow
from turnsmith.curation.scores import NAMES, read_scores
from turnsmith.curation.scoring import FILE_NAME, Scorer, ScoreRecord, make_key, score, write_question
from turnsmith.runs.folder import append_record, hold, read_records
from turnsmith.tasks.dataset import find_task_file
from turnsmith.tracking import Progress


def score_task_file(
    path: Path, scorer: Scorer, prompt: Template, num_workers: int, limit: int | None, progress: Progress
) -> dict[str, int]:
    """Ask a model for the scores of each task that has none; return counts of tasks. Raises UsageError, EngineError."""
    file = find_task_file(path)
    journal = file.with_name(FILE_NAME)
    counts = {"asked": 0, "on_record": 0, "scored_by_the_set": 0, "without_an_answer": 0}
    with journal.open("ab") as held:
        hold(held)
        known = {record.key for record in read_records(journal, ScoreRecord)}
        rows = stream_rows(file, f"scoring {path.name}", progress, limit)
        for record in _ask_all(_select(rows, prompt, known, counts), scorer, num_workers):
            append_record(journal, record)
            counts["asked"] += 1
            counts["without_an_answer"] += not record.scores
    return counts


def _select(
    rows: Iterator[TaskRow], prompt: Template, known: set[str], counts: dict[str, int]
) -> Iterator[tuple[TaskRow, str]]:
    """Yield the rows without scores, each with the question to ask about it; count the others."""
    for row in rows:
        question = write_question(row, prompt)
        if len(read_scores(row)) == len(NAMES):
            counts["scored_by_the_set"] += 1
        elif make_key(question) in known:
            counts["on_record"] += 1
        else:
            yield row, question


def _ask_all(waiting: Iterator[tuple[TaskRow, str]], scorer: Scorer, num_workers: int) -> Iterator[ScoreRecord]:
    """Score rows with `num_workers` concurrent requests; yield the scores in the order of the rows."""
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
    """Read the endpoint's key from the environment; empty if unset."""
    return os.environ.get("OPENAI_API_KEY", "")
