"""Rules of the field ids of one schema. They are checked on the JSON of the schema, because a schema that has an id twice cannot be decoded.

Spec: Schemas and Data Types; Reserved Field IDs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.rule import Level, RuleGroup
from icefloe.spec.schema.metadata_columns import MAX_USER_FIELD_ID, is_reserved

_RESTORE = "restore an earlier metadata file of the table, or let the writer of the table write a new one"


_rule = RuleGroup(level=Level.METADATA, next_step=_RESTORE).rule


FIELD_ID_TWICE = _rule(
    "field-id-unique",
    Severity.ERROR,
    "A field id occurs once in a schema.",
    "Engines read one column's values as another's, or refuse the table.",
    section="Schemas and Data Types",
)
FIELD_ID_RESERVED = _rule(
    "field-id-reserved",
    Severity.ERROR,
    f"No column has a field id above {MAX_USER_FIELD_ID}, which metadata columns have.",
    "A column is mixed up with a metadata column such as _file or _row_id.",
    section="Reserved Field IDs",
    next_step="add a column with another id and copy the values",
)
RULES = (FIELD_ID_TWICE, FIELD_ID_RESERVED)

# The most JSON values of one schema in which ids are searched, so that a hostile file cannot make the search endless.
_MOST_FIELDS = 1_000_000


def field_id_findings(schema: Any, where: str, path: str) -> Iterator[Finding]:
    """Yield a finding for each field id that occurs twice or is reserved in the JSON of one schema, which may be invalid in other ways."""
    seen: set[int] = set()
    for field_id in field_ids_of(schema):
        if field_id in seen:
            yield FIELD_ID_TWICE.finding(
                f"{where} has field id {field_id} twice", file=path, where=where, field_id=field_id, actual=field_id
            )
        elif is_reserved(field_id):
            yield FIELD_ID_RESERVED.finding(
                f"{where} has field id {field_id}", file=path, where=where, field_id=field_id, expected=MAX_USER_FIELD_ID, actual=field_id
            )
        seen.add(field_id)


def field_ids_of(schema: Any) -> Iterator[int]:
    """Yield the field ids in the JSON of one schema, which may be invalid."""
    waiting, count = [schema], 0
    while waiting and count < _MOST_FIELDS:
        value = waiting.pop()
        count += 1
        if not isinstance(value, Mapping):
            continue
        for key in ("id", "element-id", "key-id", "value-id"):
            field_id = value.get(key)
            if isinstance(field_id, int) and not isinstance(field_id, bool):
                yield field_id
        fields = value.get("fields")
        waiting += reversed(fields) if isinstance(fields, list) else []
        waiting += [value[key] for key in ("value", "key", "element", "type") if isinstance(value.get(key), Mapping)]
