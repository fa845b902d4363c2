"""Creation dates of tasks. Splits by date need them, since later commits of a repository contain earlier fixes."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def read_date(columns: Mapping[str, Any], meta: Mapping[str, Any]) -> datetime | None:
    """Read a task's `created_at`, or a mined task's `meta.date`; None if neither is a date. The default zone is UTC."""
    return parse_date(columns.get("created_at")) or parse_date(meta.get("date"))


def parse_date(stated: Any) -> datetime | None:
    """Parse a date in ISO text; None for anything else, such as milliseconds since 1970."""
    try:
        date = datetime.fromisoformat(stated)
    except (TypeError, ValueError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
