"""`Request`: what is asked of a metadata table, and the few steps that every one of them takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icefloe.kernel.arrow_values import array_of
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.schema.arrow_schema import schema_to_arrow
from icefloe.kernel.schema.schema import Schema
from icefloe.table.table_reader import TableReader

MICROS_PER_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One read of a metadata table.

    `schema` is cut to the columns that are asked for, `whole_schema` is not. `row_filter` is bound to `whole_schema`; it says what may be left out.
    `snapshot` is the one to be looked at: None for a table without any, and where the metadata table is about all of them.
    """

    table: TableReader
    schema: Schema
    whole_schema: Schema
    row_filter: BooleanExpression
    snapshot: Snapshot | None

    @property
    def metadata(self) -> TableMetadata:
        return self.table.metadata

    @property
    def names(self) -> frozenset[str]:
        """The columns that are asked for."""
        return frozenset(self.schema.names)


def empty_rows(request: Request) -> Any:
    """No rows, of the columns that are asked for."""
    return schema_to_arrow(request.schema).empty_table()


def table_of_columns(request: Request, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Python values by column, of which those that are asked for become an Arrow table."""
    wanted = schema_to_arrow(request.schema)
    arrays = [pa.array(columns[field.name], field.type) for field in wanted]
    return pa.Table.from_arrays(arrays, schema=wanted)


def micros(milliseconds: Sequence[int | None]) -> Any:
    """Times in milliseconds as an Arrow array of microseconds in UTC."""
    numbers = [None if value is None else value * MICROS_PER_MS for value in milliseconds]
    return array_of(numbers, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
