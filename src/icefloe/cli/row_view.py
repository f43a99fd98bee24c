"""Output of the rows of a table or query, as a grid, as JSON or as CSV.

Values are never shortened. Times are in ISO 8601, and those with a zone are in UTC with a `Z`; binary values are hexadecimal; decimals have all digits.
"""

import json
import math
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.cli.screen import draw, draw_blocks, json_text
from icefloe.display.report import Column, Grid, Part, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import InvalidInputError, visible
from icefloe.spec.schema.schema import Schema
from icefloe.spec.temporal_arrays import has_python_years, text_list
from icefloe.spec.types import IcebergType, ListType, MapType, StructType, UUIDType, VariantType
from icefloe.spec.variant import variant_to_json

# Patterns of fractions of a second that end with zeros, each with its replacement without these zeros.
_ZEROS = ((r"\.0+(Z?)$", r"\1"), (r"(\.\d*[1-9])0+(Z?)$", r"\1\2"))
# The number of rows of a grid that are drawn together in a pipe or a file.
_BLOCK_ROWS = 1_000
_QUOTED = re.compile(r'[",\r\n]')


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBatches:
    """Rows that arrive in Arrow record batches.

    Attributes:
        names: The names of the columns, which may repeat.
        types: The types of the columns as text.
        kinds: The types of the columns in the table, by index; empty if unknown.
        batches: The record batches.
        engine: The engine that reads the rows: `arrow`, in this process, or `spark`.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    kinds: tuple[IcebergType | None, ...]
    batches: Iterable[Any]
    engine: str

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield each row as values that JSON can represent."""
        for batch in self.batches:
            columns = [_values(batch.column(place), kind) for place, kind in enumerate(self.kinds)]
            yield from zip(*columns, strict=True) if columns else [()] * batch.num_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGrid(Reportable):
    """The first rows, as a grid. `is_complete` is False if there are more rows."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    is_complete: bool

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the rows are limited already
        if not self.columns:
            return Report("", (Prose("the statement returned no rows"),))
        texts = [tuple(map(cell_text, row)) for row in self.rows]
        # If the grid is too wide, columns with the same value in all rows are left out first, then the last columns. The first column stays.
        repeated = [len(texts) > 1 and len(set(column)) == 1 for column in zip(*texts, strict=True)] or [False] * len(self.columns)
        columns = tuple(
            Column(name, is_number=_is_number(kind), rank=place + len(self.columns) * (repeated[place] and place > 0))
            for place, (name, kind) in enumerate(self.columns)
        )
        parts: list[Part] = [grid("", columns, texts, None)]
        if not self.is_complete:
            parts.append(Prose(f"the first {len(self.rows):,} rows; --all shows every row"))
        return Report("", tuple(parts))


def rows_of_arrow(table: Any, schema: Schema | None, engine: str) -> RowBatches:
    """Return the rows of an Arrow table or record batch reader.

    Args:
        table: The Arrow table or reader.
        schema: The table's columns in the order of the rows; None if unknown.
        engine: The engine that reads the rows.
    """
    fields: Sequence[Any] = list(table.schema)
    kinds = tuple(field.field_type for field in schema.fields) if schema is not None else (None,) * len(fields)
    return RowBatches(
        names=tuple(field.name for field in fields),
        types=tuple(str(kind or field.type) for kind, field in zip(kinds, fields, strict=True)),
        kinds=kinds,
        batches=table.to_batches() if isinstance(table, pa.Table) else table,
        engine=engine,
    )


def print_rows(source: RowBatches, *, as_json: bool, as_csv: bool, most: int | None) -> None:
    """Print rows.

    Args:
        source: The rows, which are read only as far as needed.
        as_json: Whether JSON is printed.
        as_csv: Whether CSV is printed.
        most: The greatest number of rows of a grid; None for all. JSON and CSV have every row.

    Raises:
        InvalidInputError: Both formats are requested, or JSON for columns that have the same name.
    """
    if as_csv:
        _write_csv(source)
    elif as_json:
        _write_json(source)
    elif most is None and source.names and not sys.stdout.isatty():
        # In blocks, because the table may not fit into memory, and the reader of a pipe may need only the first lines.
        draw_blocks(_blocks(source))
    else:
        rows: list[tuple[Any, ...]] = []
        is_complete = True
        for row in source.rows():
            if most is not None and len(rows) == most:
                is_complete = False
                break
            rows.append(row)
        columns = tuple(zip(source.names, source.types, strict=True))
        draw(RowGrid(columns=columns, rows=tuple(rows), is_complete=is_complete).report())


def _blocks(source: RowBatches) -> Iterator[Grid]:
    """Yield the rows as grids of limited length. If there are no rows, yield one grid without rows."""
    columns = tuple(Column(name, is_number=_is_number(kind)) for name, kind in zip(source.names, source.types, strict=True))
    texts = (tuple(map(cell_text, row)) for row in source.rows())
    yield Grid("", columns, tuple(islice(texts, _BLOCK_ROWS)))
    while block := tuple(islice(texts, _BLOCK_ROWS)):
        yield Grid("", columns, block)


def check_formats(*, as_json: bool, as_csv: bool) -> None:
    """Refuse to print two formats.

    Raises:
        InvalidInputError: Both formats are requested.
    """
    if as_json and as_csv:
        raise InvalidInputError("both --json and --csv are given", next_step="choose one")


def cell_text(value: Any) -> str:
    """Return a JSON value as the text of a cell: text without quotes, and `NULL` for None."""
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_csv(source: RowBatches) -> None:
    """Write a header line and the rows. Null is an empty value, and empty text is in quotes. In a terminal, control characters are escaped."""
    escape = visible if sys.stdout.isatty() else str
    for row in chain([source.names], source.rows()):
        sys.stdout.write(escape(",".join(map(_csv_field, row))) + "\n")


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = cell_text(value)
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text


def _write_json(source: RowBatches) -> None:
    repeated = sorted({name for name in source.names if source.names.count(name) > 1})
    if repeated:
        raise InvalidInputError(
            f"two columns are called {repeated[0]!r}, and JSON has one value for a name", next_step="rename one with AS"
        )
    columns = [{"name": name, "type": kind} for name, kind in zip(source.names, source.types, strict=True)]
    rows = (json_text(dict(zip(source.names, row, strict=True))).replace("\n", "\n    ") for row in source.rows())
    first = next(rows, None)  # read the first row before anything is written, because most errors occur there
    beginning, _, end = json_text({"engine": source.engine, "columns": columns, "rows": []}).rpartition("]")
    sys.stdout.write(beginning)
    if first is not None:
        # Row by row, because the table may not fit into memory, and the reader of a pipe may need only the first lines.
        sys.stdout.write(f"\n    {first}")
        sys.stdout.writelines(f",\n    {row}" for row in rows)
        sys.stdout.write("\n  ")
    sys.stdout.write(f"]{end}\n")


def _values(column: Any, kind: IcebergType | None) -> list[Any]:
    if not has_python_years(column):  # Arrow has only 16 bits for the year when it formats a time
        return [_plain(value, kind) for value in text_list(column)]
    readable = _readable_type(column.type)
    texts = column if readable == column.type else column.cast(readable)
    if pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
        for pattern, replacement in _ZEROS:
            texts = pc.replace_substring_regex(texts, pattern, replacement)
    return [_plain(value, kind) for value in texts.to_pylist()]


def _readable_type(kind: Any) -> Any:
    """Return an Arrow type in which dates and times are text, because Python cannot represent nanoseconds and years after 9999."""
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([kind.field(place).with_type(_readable_type(kind.field(place).type)) for place in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(_readable_type(kind.key_type), kind.item_field.with_type(_readable_type(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_readable_type(kind.value_type)))
    return kind


def _plain(value: Any, kind: IcebergType | None) -> Any:
    """Convert a value to one that JSON can represent: bytes to hexadecimal text, NaN, decimals and times to text, and so on at every level."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(kind, VariantType) and isinstance(value, dict):
        return variant_to_json(value["metadata"], value["value"])
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return str(uuid.UUID(bytes=value)) if isinstance(kind, UUIDType) else value.hex()
    if isinstance(value, dict):
        inner = {field.name: field.field_type for field in kind.fields} if isinstance(kind, StructType) else {}
        return {name: _plain(item, inner.get(name)) for name, item in value.items()}
    if isinstance(value, list):
        if isinstance(kind, MapType) or (value and isinstance(value[0], tuple)):
            return _plain_map(value, kind if isinstance(kind, MapType) else None)
        return [_plain(item, kind.element if isinstance(kind, ListType) else None) for item in value]
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value if isinstance(value, str) else str(value)


def _plain_map(pairs: list[tuple[Any, Any]], kind: MapType | None) -> Any:
    """Return a map as a JSON object if all keys are text; otherwise as a list of pairs."""
    plain = [(_plain(key, kind.key_type if kind else None), _plain(value, kind.value_type if kind else None)) for key, value in pairs]
    return dict(plain) if all(isinstance(key, str) for key, _ in plain) else [list(pair) for pair in plain]


def _is_number(kind: str) -> bool:
    return kind in ("int", "long", "float", "double", "int32", "int64") or kind.startswith("decimal")
