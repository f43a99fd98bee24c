"""The limits of nested structs, lists and maps, in schemas that are read and in schemas that are written.

The format has no limit of nesting, but its readers do. Measured with PyArrow 26: a column with `n` levels of one type can be written to Parquet, ORC and
Arrow's stream format at any depth, but it can only be read

    up to                                    lists   structs   maps
    Parquet, by Arrow                           49        98     49
    ORC, by Arrow                        any depth any depth    any
    Arrow's stream, as Spark's tasks read it    63        63     31

so deeper rows could be written but not read. The limit `write_nesting` is below all of these. `read_nesting` is above them, because the other columns of a
table with deeper columns can still be read. A column of a primitive type has 0 levels. Spec: Nested Types.
"""

from collections.abc import Mapping
from typing import Any

from icefloe.errors import InvalidSchemaError, MetadataFormatError, Problem
from icefloe.spec.limits import environment_variable, limits, raise_limit
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IcebergType, children


def nesting_of(kind: IcebergType) -> int:
    """Return the number of levels of structs, lists and maps in a type."""
    deepest = 0
    waiting = [(kind, 0)]
    while waiting:
        kind, above = waiting.pop()
        inner = children(kind)
        if not kind.is_primitive:
            deepest = max(deepest, above + 1 if inner else above)
        waiting += ((field.field_type, above + 1) for field in inner)
    return deepest


def check_write_nesting(schema: Schema, table_name: str | None = None) -> None:
    """Refuse a schema whose rows could be written but not read.

    Raises:
        InvalidSchemaError: A column is nested deeper than the limit `write_nesting`. Every such column is listed.
    """
    limit = limits().write_nesting
    problems = [
        Problem(where=field.name, what=f"its type is {nesting} levels deep")
        for field in schema.fields
        if (nesting := nesting_of(field.field_type)) > limit
    ]
    if problems:
        raise InvalidSchemaError(
            f"columns are nested more than {limit} levels deep: {', '.join(problem.where for problem in problems)}",
            table=table_name,
            problems=problems,
            next_step="nest less deeply: many readers cannot read such columns. If every reader of the table can, raise the limit with "
            f"{environment_variable('write_nesting')}",
        )


def refuse_deep_json(value: Any, path: str) -> None:
    """Refuse the JSON of a type or a schema that is nested deeper than the limit `read_nesting`, before a recursive function processes it.

    Args:
        value: The parsed JSON.
        path: The JSON path of `value` in the metadata.

    Raises:
        MetadataFormatError: The JSON is nested too deeply.
    """
    limit, nesting = limits().read_nesting, json_nesting(value)
    if nesting > limit:
        what = f"types are nested {nesting} levels deep; the limit read_nesting is {limit}"
        raise MetadataFormatError(
            "a schema is nested too deeply", problems=[Problem(where=path, what=what)], next_step=raise_limit("read_nesting")
        )


def json_nesting(value: Any) -> int:
    """Return the number of levels of structs, lists and maps in the JSON of a type or a schema, which may be invalid."""
    deepest = 0
    waiting = [(value, 0)]
    while waiting:
        kind, above = waiting.pop()
        if not isinstance(kind, Mapping):
            continue
        deepest = max(deepest, above)
        waiting += ((kind[key], above + 1) for key in ("element", "key", "value") if isinstance(kind.get(key), Mapping))
        fields = kind.get("fields")
        for field in fields if isinstance(fields, list) else ():
            if isinstance(field, Mapping) and isinstance(field.get("type"), Mapping):
                waiting.append((field["type"], above + 1))
    return deepest
