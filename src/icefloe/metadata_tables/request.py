"""`Request`: the parameters of one read of a metadata table; and functions that build the result, which all metadata tables use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icefloe.operations.loaded_table import TableReader
from icefloe.spec.arrow_values import array_of
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema

MICROS_PER_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The parameters of one read of a metadata table.

    `schema` has only the requested columns, `whole_schema` all columns of the metadata table. `row_filter` is bound to `whole_schema`; rows that do not match
    may be left out, but need not be. `snapshot` is the snapshot to read; it is None if the table has no snapshots, or if the metadata table describes the
    whole table.
    """

    table: TableReader
    schema: Schema
    whole_schema: Schema
    row_filter: BooleanExpression
    snapshot: Snapshot | None

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the table."""
        return self.table.metadata

    @property
    def names(self) -> frozenset[str]:
        """The names of the requested columns."""
        return frozenset(self.schema.names)


def empty_rows(request: Request) -> Any:
    """Return an empty Arrow table with the requested columns."""
    return schema_to_arrow(request.schema).empty_table()


def table_of_columns(request: Request, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return an Arrow table of the requested columns from Python values by column."""
    arrow_schema = schema_to_arrow(request.schema)
    arrays = [pa.array(columns[field.name], field.type) for field in arrow_schema]
    return pa.Table.from_arrays(arrays, schema=arrow_schema)


def micros(milliseconds: Sequence[int | None]) -> Any:
    """Return times, in milliseconds since 1970-01-01 UTC, as an Arrow array of timestamps in microseconds with the time zone UTC."""
    numbers = [None if value is None else value * MICROS_PER_MS for value in milliseconds]
    return array_of(numbers, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
