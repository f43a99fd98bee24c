"""Reads of a table by Spark and in this process, side by side."""

from collections import Counter
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import VariantVal

from icefloe.table import Table

# Types whose values are the same in a row of Spark and in a list of Arrow.
FLAT = {"boolean", "integer", "long", "string"}


def in_order(found: list[Any]) -> list[Any]:
    return sorted(found, key=repr)


def same_rows(table: Table, where: str = "TRUE", *columns: str) -> DataFrame:
    """Read with Spark and in this process, compare the rows, and return Spark's frame."""
    scan = table.scan(where, selected_fields=columns or ("*",))
    frame: DataFrame = scan.to_spark()
    rows, here = frame.collect(), scan.to_arrow()
    if all(field.dataType.typeName() in FLAT for field in frame.schema.fields):  # several times as fast for many rows
        assert frame.columns == here.column_names
        assert Counter(repr(tuple(row)) for row in rows) == Counter(
            map(repr, zip(*(column.to_pylist() for column in here.columns), strict=True))
        )
        return frame
    found = [{name: plain(value) for name, value in row.asDict(recursive=True).items()} for row in rows]
    assert in_order(found) == in_order(here.to_pylist())
    return frame


def plain(value: Any) -> Any:
    """Convert a value of a Spark row to the Python value that Arrow returns."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, VariantVal):
        return {"metadata": bytes(value.metadata), "value": bytes(value.value)}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return {name: plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())
