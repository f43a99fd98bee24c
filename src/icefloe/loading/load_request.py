"""The values of a load: `LoadRequest`, `LoadResult`, and `SparkRequest` for the rows that Spark reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.errors import InvalidInputError
from icefloe.loading.bad_rows import BadRow, BadRows
from icefloe.loading.csv_input import MixedColumn
from icefloe.operations.write_result import WriteResult
from icefloe.spec.schema.schema import Schema
from icefloe.table.table import Table

# The entry of a snapshot's summary with the id of the load that made it.
LOAD_ID = "icefloe.load-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What to load, and how.

    Attributes:
        partition: Partition fields of a new table, such as `month(time)`.
        properties: Properties of a new table, such as `{"format-version": "3"}`.
        columns: The columns to load as text, such as `id long, time timestamptz`; all columns, with inferred types, by default.
        options: Options of the reader, such as `{"sep": ";"}`.
        overwrite: Replace all rows of the table.
        upsert: Key columns: rows with the key of an existing row replace it, others are added. Each file needs every column of the table.
        where: A filter: only rows for which it is true are loaded.
        add_columns: Add columns of the files that the table does not have.
        cast_nanos: Cut timestamps of Parquet files to microseconds.
        bad_rows: What is done with rows that cannot be loaded.
        bad_rows_file: The file for `quarantine`; by default beside the first input file.
        load_id: An id of the load, kept in the summary of its snapshot: a load of an id that the table has in its history is refused. By default an id of the
            files, which is kept too, and refuses nothing.
    """

    partition: str | Sequence[str] = ()
    properties: Mapping[str, str] | None = None
    columns: str | None = None
    options: Mapping[str, str] | None = None
    overwrite: bool = False
    upsert: str | Sequence[str] = ()
    where: str | None = None
    add_columns: bool = False
    cast_nanos: bool = False
    bad_rows: BadRows | str = BadRows.FAIL
    bad_rows_file: str | None = None
    load_id: str | None = None

    def __post_init__(self) -> None:
        """Put single names in lists. Raise `InvalidInputError` for options that contradict each other."""
        for name in ("partition", "upsert"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        try:
            object.__setattr__(self, "bad_rows", BadRows(self.bad_rows))
        except ValueError as error:
            raise InvalidInputError(
                f"{self.bad_rows!r} is nothing that is done with bad rows", next_step=f"choose one of {', '.join(BadRows)}"
            ) from error
        if self.overwrite and self.upsert:
            raise InvalidInputError("--overwrite and --upsert contradict each other", next_step="pass one of them")
        if self.load_id is not None and not self.load_id.strip():
            raise InvalidInputError("--load-id is empty", next_step="name the load by what it loads, such as --load-id 2026-01-31")
        if self.bad_rows_file is not None and self.bad_rows is not BadRows.QUARANTINE:
            raise InvalidInputError("--bad-rows-file is used only with --bad-rows quarantine", next_step="pass --bad-rows quarantine")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The outcome of a load.

    Attributes:
        table: The table after the load.
        write: What the commit did.
        load_id: The id of the load, which the summary of its snapshot has.
        bad_rows: The number of rows that were not loaded because they are bad.
        first_bad_rows: The first of them.
        bad_rows_file: The file that has them all; None without bad rows, or unless it was requested.
        filtered_rows: The number of rows for which the filter was not true.
        mixed_columns: New columns of CSV files that are `string` although nearly all of their values have another type.
    """

    table: Table
    write: WriteResult
    load_id: str
    bad_rows: int
    first_bad_rows: tuple[BadRow, ...]
    bad_rows_file: str | None
    filtered_rows: int
    mixed_columns: tuple[MixedColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRequest:
    """Files for Spark to read.

    Attributes:
        paths: The files.
        file_format: Spark's name of their format.
        columns: The columns to load.
        read_as: The columns of the files in their order, where Spark matches them by position; else the same.
        options: Options of Spark's reader.
    """

    paths: Sequence[str]
    file_format: str
    columns: Schema
    read_as: Schema
    options: Mapping[str, str]
