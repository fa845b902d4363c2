import json
from pathlib import Path

from spans import merge
from spans.testing import assert_in_order

EXAMPLES = Path(__file__).parents[1] / "examples" / "merged.json"


def test_examples():
    for spans, expected in json.loads(EXAMPLES.read_text()):
        assert [list(span) for span in merge(spans)] == expected


def test_order():
    assert_in_order(merge([(20, 30), (1, 5), (7, 9), (41, 42), (50, 60)]))
