"""JSON-ready form of the values of this package: field names as keys, sequences as lists, bytes as hexadecimal text."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any


def json_ready(value: Any) -> Any:
    """Return a value as dicts, lists, text, numbers, booleans and None. Keys with a leading underscore are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_ready(getattr(value, field.name)) for field in fields(value) if not field.name.startswith("_")}
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Sequence):
        return [json_ready(item) for item in value]
    return str(value)
