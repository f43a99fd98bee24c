"""Rows of any engine in a comparable form: times in microseconds of UTC, decimals as text, bytes in hex."""

import datetime as dt
import json
import re
import uuid
from decimal import Decimal
from typing import Any

MOMENT = re.compile(r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    """Return one JSON line for each row, sorted."""
    return sorted(json.dumps({key: plain(value) for key, value in row.items()}, sort_keys=True) for row in rows)


def plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        moment = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return moment.isoformat(sep=" ")
    if isinstance(value, dt.date | dt.time | uuid.UUID | Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, str) and MOMENT.match(value):
        return plain(dt.datetime.fromisoformat(value))
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
