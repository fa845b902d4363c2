"""Quality scores that language models gave to tasks: 0 is best, 3 is worst.

SWE-rebench stores three scores per task in `meta.llm_score`, with −1 for missing ones. SWE-rebench V2 stores a word for the
difficulty and codes of defects in `meta.llm_metadata`; both are converted to scores from 0 to 3.
"""

import re
from collections.abc import Iterable
from typing import Any

from turnsmith.curation.rows import TaskRow

DIFFICULTY, ISSUE, TESTS = NAMES = ("difficulty_score", "issue_text_score", "test_score")
BEST, WORST = 0, 3
WORDS = {"easy": 1, "medium": 2, "hard": 3}
"""Difficulty in SWE-rebench V2 → score; "hard" gets the worst score."""
OF_TESTS = {"B1", "B2", "B5", "B7", "B10"}
"""SWE-rebench V2's codes of defects of the tests, which make `test_score` the worst; other B codes are defects of the issue."""
CODE = re.compile(r"\b(?:A|B\d+)\b")


def read_scores(row: TaskRow) -> dict[str, float]:
    """Map score names to a row's scores: those of its data set or, if there are none, those of `tasks score`."""
    own = row.meta.get("llm_score")
    if isinstance(own, dict):
        return {name: own[name] for name in NAMES if _is_score(own.get(name))} or dict(row.asked_scores)
    return _score_judgements(read_judgements(row)) or dict(row.asked_scores)


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and value >= BEST


def read_judgements(row: TaskRow) -> list[dict[str, Any]]:
    """Return a language model's judgements of a task, which SWE-rebench V2 stores in the row."""
    found = row.meta.get("llm_metadata")
    judgements = found if isinstance(found, list) else [found]
    return [judgement for judgement in judgements if isinstance(judgement, dict)]


def read_codes(row: TaskRow) -> set[str]:
    """Return SWE-rebench V2's codes of a row: `A` for a clean task, `B1` to `B11` for defects; empty if not judged."""
    return _read_codes(read_judgements(row))


def _read_codes(judgements: Iterable[dict[str, Any]]) -> set[str]:
    return {code for judgement in judgements for code in CODE.findall(str(judgement.get("code") or ""))}


def _score_judgements(judgements: list[dict[str, Any]]) -> dict[str, float]:
    scores: dict[str, float] = {}
    if words := [WORDS[word] for each in judgements if (word := str(each.get("difficulty")).lower()) in WORDS]:
        scores[DIFFICULTY] = max(words)
    if codes := _read_codes(judgements):
        scores[TESTS] = WORST if codes & OF_TESTS else BEST
        scores[ISSUE] = WORST if codes - OF_TESTS - {"A"} else BEST
    return scores
