"""When a task came up: a later tree of its repository may hold its fix."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def read_date(columns: Mapping[str, Any], meta: Mapping[str, Any]) -> datetime | None:
    """The column `created_at`, or `meta.date` as mined tasks have it; UTC where no zone is named. None where neither is one."""
    return parse_date(columns.get("created_at")) or parse_date(meta.get("date"))


def parse_date(stated: Any) -> datetime | None:
    """ISO text → a moment; None for anything else, milliseconds among it."""
    try:
        date = datetime.fromisoformat(stated)
    except (TypeError, ValueError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
