"""Creation dates of tasks; later trees of a repository may contain the fix."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def read_date(columns: Mapping[str, Any], meta: Mapping[str, Any]) -> datetime | None:
    """Read `created_at`, or `meta.date` of mined tasks; UTC by default. None if neither is a date."""
    return parse_date(columns.get("created_at")) or parse_date(meta.get("date"))


def parse_date(stated: Any) -> datetime | None:
    """Parse ISO text; None for anything else, including milliseconds."""
    try:
        date = datetime.fromisoformat(stated)
    except (TypeError, ValueError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
