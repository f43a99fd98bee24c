"""The arguments and results of a load: `LoadRequest`, `LoadResult`, and `SparkRequest` if Spark reads the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.errors import InvalidInputError
from icefloe.loading.bad_rows import BadRow, BadRows
from icefloe.loading.csv_input import MixedColumn
from icefloe.operations.write_result import WriteResult
from icefloe.spec.schema.schema import Schema
from icefloe.table.table import Table

# The key of the load's id in the summary of a snapshot.
LOAD_ID = "icefloe.load-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """The choices of the caller for a load. None of them is required.

    Attributes:
        partition: The partition fields of a new table, such as `month(time)`; a table that exists must be partitioned in this way.
        properties: The properties of a new table, such as `{"format-version": "3"}`.
        columns: The names and types of the columns to load as a text, such as `id long, time timestamptz`; None for all columns, with inferred types.
        options: The options of the reader, such as `{"sep": ";"}`.
        overwrite: Whether the loaded rows replace all rows of the table.
        upsert: The key columns of an upsert: a loaded row replaces the existing row with the same key, or is added if there is no such row. Each file must have
            every column of the table. Empty for an append.
        where: A filter as text. Only rows for which it is true are loaded. None loads all rows.
        add_columns: Whether columns that the files have and the table does not have are added to the table.
        cast_nanos: Whether timestamps of Parquet files in nanoseconds are cut to microseconds.
        bad_rows: What the load does with rows that cannot be loaded: `fail`, `skip` or `quarantine`.
        bad_rows_file: The path of the file for `quarantine`; None for a file beside the first input file.
        load_id: The id of the load, which is added to the summary of the snapshot. The load is refused if a snapshot of the table has the same id already. None
            for an id that is derived from the files, for which no load is refused.
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
        """Convert a single name to a tuple of names, and check the fields.

        Raises:
            InvalidInputError: A field has a wrong value, or two fields contradict each other.
        """
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
    """The result of a load.

    Attributes:
        table: The table after the load.
        write: The result of the write: its snapshot, and the numbers of rows and files.
        load_id: The id of the load, which the summary of the snapshot contains.
        bad_rows: The number of bad rows, which were not loaded.
        first_bad_rows: The first five bad rows.
        bad_rows_file: The path of the file with all bad rows; None if there are no bad rows, or `bad_rows` is not `quarantine`.
        filtered_rows: The number of rows that were not loaded because the filter was not true for them.
        mixed_columns: New columns of CSV files that have the type `string` although nearly all of their values have another type.
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
    """The arguments with which Spark reads the files of a load.

    Attributes:
        paths: The locations of the files.
        file_format: Spark's name of the format.
        columns: The columns to load.
        read_as: The schema for Spark's reader. For CSV files, whose columns Spark matches by position, it has all columns of the files in their order; for
            other files it is equal to `columns`.
        options: The options of Spark's reader.
    """

    paths: Sequence[str]
    file_format: str
    columns: Schema
    read_as: Schema
    options: Mapping[str, str]
