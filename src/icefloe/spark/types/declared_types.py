"""Parses the types of columns in a statement from Spark's JSON, and refuses types that an Iceberg table cannot store.

Collations, `CHAR(n)` and `VARCHAR(n)` have no equivalent in Iceberg, so that other engines would not use them to compare or check values. They are refused,
because without them a table would return different rows than the statement declares. Spec: Primitive Types.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType, _parse_datatype_json_value

from icefloe.errors import Problem, UnsupportedTypeError

CHAR_AS_STRING = "spark.sql.legacy.charVarcharAsString"
COLLATION, BINARY_COLLATION = "collation", "UTF8_BINARY"
_COLLATE = " collate "
_PARTS = ("type", "fields", "elementType", "keyType", "valueType")  # keys of Spark's JSON that contain types
_LENGTHS = ("char(", "varchar(")
_NANOSECONDS = ("timestamp_ntz(", "timestamp_ltz(")
# The next steps for problems, by the beginning or a part of the type.
_NEXT_OF_COLLATION = "declare the column as STRING, and compare with s COLLATE UTF8_LCASE = '...' in queries"
_NEXT_OF_LENGTHS = (
    f"declare the column as STRING; SET {CHAR_AS_STRING}=true takes CHAR(n) and VARCHAR(n) for STRING, as Java's Iceberg does"
)
_NEXT_OF_NANOSECONDS = (
    "declare the column as TIMESTAMP_NTZ or TIMESTAMP, in microseconds; "
    "catalog.create_table makes columns of timestamp_ns, and table.scan().to_arrow() reads them"
)


def takes_char_as_string(spark: SparkSession) -> bool:
    """Return whether the session treats CHAR(n) and VARCHAR(n) as STRING (`spark.sql.legacy.charVarcharAsString`)."""
    return str(spark.conf.get(CHAR_AS_STRING, "false")).lower() == "true"


def declared_types(columns: Iterable[tuple[str, str]], *, char_as_string: bool) -> list[DataType]:
    """Parse the types of the columns in a statement; return one type for each column.

    Args:
        columns: names of columns with their types in Spark's JSON. `bridge/java/ConnectorJson.java` writes a type with a collation as text.
        char_as_string: whether CHAR(n) and VARCHAR(n) are treated as STRING.

    Raises:
        UnsupportedTypeError: types have a collation, a length or nanoseconds, or are unknown to PySpark; the error lists all columns with such types.
    """
    parsed = [(name, _by_bytes(json.loads(text))) for name, text in columns]
    problems, next_steps = [], dict[str, None]()
    for name, kind in parsed:
        for path, leaf in _leaves(kind, (name,)):
            rule, next_step = _refusal(leaf, char_as_string=char_as_string)
            if rule:
                problems.append(Problem(where=".".join(path), what=f"type {leaf}: {rule}"))
                next_steps[next_step] = None
    if problems:
        raise UnsupportedTypeError(
            "an Iceberg table cannot keep the types of some columns", problems=problems, next_step="; ".join(next_steps)
        )
    return [_parse(name, kind) for name, kind in parsed]


def _by_bytes(kind: Any) -> Any:
    """Remove the binary collation from a type in Spark's JSON, because it has no effect. Spark 4.3 keeps it in the JSON if a statement contains it."""
    if isinstance(kind, list):
        return [_by_bytes(field) for field in kind]
    if isinstance(kind, dict):
        return {key: _by_bytes(part) if key in _PARTS else part for key, part in kind.items()}
    return "string" if kind == f"string{_COLLATE}{BINARY_COLLATION}" else kind


def _leaves(kind: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the name of each primitive type inside a type in Spark's JSON."""
    if isinstance(kind, str):
        yield path, kind
    elif kind["type"] == "struct":
        for field in kind["fields"]:
            yield from _leaves(field["type"], (*path, field["name"]))
    elif kind["type"] == "array":
        yield from _leaves(kind["elementType"], (*path, "element"))
    elif kind["type"] == "map":
        yield from _leaves(kind["keyType"], (*path, "key"))
        yield from _leaves(kind["valueType"], (*path, "value"))


def _refusal(leaf: str, *, char_as_string: bool) -> tuple[str, str]:
    """Return the reason why a table cannot store a primitive type, and the next step for the error; two empty texts if it can."""
    if _COLLATE in leaf:
        return "Iceberg has no collations, so that comparisons would be by bytes", _NEXT_OF_COLLATION
    if leaf.startswith(_LENGTHS) and not char_as_string:
        return "Iceberg has no texts of a bounded length, so that longer ones would be taken", _NEXT_OF_LENGTHS
    if leaf.startswith(_NANOSECONDS):
        return "Icefloe does not read and write timestamps in nanoseconds by Spark yet", _NEXT_OF_NANOSECONDS
    return "", ""


def _parse(name: str, kind: Any) -> DataType:
    try:
        return _parse_datatype_json_value(kind)
    except PySparkException as error:
        raise UnsupportedTypeError(
            "this PySpark has no class for the type of a column",
            problems=[Problem(where=name, what=f"type {json.dumps(kind)}")],
            next_step="choose another type",
        ) from error


def struct_of(text: str) -> StructType:
    """Parse the struct of the columns of a Spark query or table from Spark's JSON.

    Raises:
        UnsupportedTypeError: columns are timestamps in nanoseconds, for which PySpark has no class; the error lists all of them.
    """
    kind = json.loads(text)
    problems = [Problem(where=".".join(path), what=f"type {leaf}") for path, leaf in _leaves(kind, ()) if leaf.startswith(_NANOSECONDS)]
    if problems:
        raise UnsupportedTypeError(
            "Icefloe does not read and write timestamps in nanoseconds by Spark yet",
            problems=problems,
            next_step="cast them to TIMESTAMP_NTZ or TIMESTAMP, in microseconds",
        )
    return StructType.fromJson(kind)


def check_collation(properties: Mapping[str, str | None], what: str) -> None:
    """Raise an error if the properties of a statement have a default collation other than the binary one.

    Args:
        properties: the properties that are set.
        what: a description of the table or namespace, for the error.

    Raises:
        UnsupportedTypeError: the collation does not compare by bytes.
    """
    for name, value in properties.items():
        if name.lower() == COLLATION and value is not None and value.upper() != BINARY_COLLATION:
            raise UnsupportedTypeError(
                f"{what} cannot have the default collation {value}: Iceberg has no collations, so that comparisons would be by bytes",
                next_step="leave DEFAULT COLLATION out, and compare with s COLLATE UTF8_LCASE = '...' in queries",
            )
