"""What a statement returns, in a form that two engines can be compared by: types, and a multiset of rows."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

Rows = Counter[str]
# Formats that keep all digits.
_TIMES = "yyyy-MM-dd HH:mm:ss.SSSSSS"
_AS_JSON = f"to_json(struct(*), map('timestampFormat', '{_TIMES}', 'timestampNTZFormat', '{_TIMES}'))"
# JSON has no structs as keys of maps. Binary values are no UTF-8, so that the text as a whole is made hexadecimal where there are any.
_AS_TEXT = "hex(CAST(struct(*) AS STRING))"
_NEGATIVE_ZERO = re.compile(r"(?<![\w.])-0\.0(?![\d.E])")


@dataclass(frozen=True)
class Outcome:
    """The rows of a query, or the error that it ended with.

    Attributes:
        rows: Each row as text, with how often it is there.
        types: Names and types of the columns.
        error: The error; empty where there is none.
    """

    rows: Rows
    types: str = ""
    error: str = ""

    def differs_from(self, right: "Outcome") -> str:
        """Return how this outcome differs from the right one; empty if it does not. Two errors are equal, whatever their texts."""
        if self.error or right.error:
            if bool(self.error) == bool(right.error):
                return ""
            return f"fails: {self.error}" if self.error else f"has {_lines(self.rows)}where the judge fails: {right.error}"
        if self.types != right.types:
            return f"has the types\n  {self.types}\nright are\n  {right.types}"
        if self.rows != right.rows:
            return f"rows that are not right:\n{_lines(self.rows - right.rows)}rows that are missing:\n{_lines(right.rows - self.rows)}"
        return ""


def outcome_of(spark: SparkSession, sql: str, *, exact_zeros: bool = True) -> Outcome:
    """Run a query and return what came of it."""
    try:
        frame = spark.sql(sql)
        return Outcome(rows_of(frame.toArrow(), exact_zeros=exact_zeros), frame.schema.simpleString())
    except Exception as error:  # noqa: BLE001  # any error is an outcome
        return Outcome(Counter(), error=error_text(error))


def unlike_parts(spark: SparkSession, parts: list[tuple[str, str]], exact_zeros: list[bool], *, as_json: bool) -> dict[int, str]:
    """Return the places of pairs of queries whose rows or types may differ, all run as one statement, each with the reason.

    Where one query fails, the statement does; its halves are run then, so that the pair is found in few statements.

    Args:
        spark: The session.
        parts: Pairs of queries.
        exact_zeros: For each pair, whether 0.0 and -0.0 differ.
        as_json: Whether rows are compared as JSON; else as Spark's texts of structs, which any type has.
    """
    text = _AS_JSON if as_json else _AS_TEXT
    both = [query for pair in parts for query in pair]
    selects = [f"SELECT {place} AS q, {text} AS r, typeof(struct(*)) AS t FROM ({query}) b" for place, query in enumerate(both)]
    try:
        # One task reads all parts: each task would deserialise the plans of all of them.
        found = spark.sql(" UNION ALL ".join(selects)).coalesce(1).toArrow().to_pydict()
    except Exception as error:  # noqa: BLE001  # any error is an outcome
        if len(parts) == 1:
            return {0: error_text(error)}
        half = len(parts) // 2
        first = unlike_parts(spark, parts[:half], exact_zeros[:half], as_json=as_json)
        second = unlike_parts(spark, parts[half:], exact_zeros[half:], as_json=as_json)
        return first | {place + half: reason for place, reason in second.items()}
    rows = [Counter[tuple[str, str]]() for _ in both]
    for place, row, kind in zip(found["q"], found["r"], found["t"], strict=True):
        rows[place][row if exact_zeros[place // 2] else _NEGATIVE_ZERO.sub("0.0", row), kind] += 1
    return {place: "other rows or types" for place, (seen, right) in enumerate(zip(rows[::2], rows[1::2], strict=True)) if seen != right}


def error_text(error: Exception) -> str:
    """Return the class of an error and the part of its text that has the cause."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if "Traceback" in str(error):  # the last line of a Python task's traceback has its error
        lines = [line for line in lines if not line.startswith((" ", "\t"))][-1:]
    elif any(line.startswith("Caused by: ") for line in lines):  # below an error of Py4J
        lines = [line for line in lines if line.startswith("Caused by: ")][-1:]
    return f"{type(error).__name__}: {' '.join(' '.join(lines).split())[:600]}"


def rows_of(table: pa.Table, *, exact_zeros: bool = True) -> Rows:
    """Return the rows of an Arrow table as a multiset."""
    columns = [_values(column.combine_chunks(), exact_zeros) for column in table.columns]
    if not columns:
        return Counter({"()": table.num_rows})
    return Counter(map(repr, zip(*columns, strict=True)))


def _values(array: Any, exact_zeros: bool) -> list[Any]:
    """Return the values of an array: numbers for dates and times of any year, tuples for lists and structs, sorted pairs for maps."""
    if isinstance(array, pa.ChunkedArray):  # an empty column
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return [None if value is None else str(value) for value in array.to_pylist()]
    if pa.types.is_struct(kind):
        members = [_values(array.field(place), exact_zeros) for place in range(kind.num_fields)]
        rows = zip(*members, strict=True) if members else [()] * len(array)
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_map(kind):
        pairs = list(zip(_values(array.keys, exact_zeros), _values(array.items, exact_zeros), strict=True))
        return [None if one is None else sorted(one, key=repr) for one in _parts(array, pairs)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _parts(array, _values(array.values, exact_zeros))
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("us", kind.tz)).view(pa.int64()).to_pylist()
    if pa.types.is_date32(kind):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_time(kind):
        return array.cast(pa.time64("us")).cast(pa.int64()).to_pylist()
    if pa.types.is_floating(kind):
        return [value if value is None or exact_zeros else value + 0.0 for value in array.to_pylist()]
    return array.to_pylist()


def _parts(array: Any, values: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [values[start:end] if is_valid else None for start, end, is_valid in zip(offsets[:-1], offsets[1:], valid, strict=True)]


def _lines(rows: Rows, most: int = 4) -> str:
    lines = [f"  {count} x {row[:400]}\n" for row, count in sorted(rows.items())[:most]]
    return "".join(lines) + (f"  and {len(rows) - most} more\n" if len(rows) > most else "") or "  none\n"
