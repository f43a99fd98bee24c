"""The values that a load takes and returns: `LoadRequest`, `LoadResult`, and `SparkRequest` for rows that Spark reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icefloe.errors import InvalidInputError
from icefloe.loading.bad_rows import BadRow, BadRows
from icefloe.loading.csv_input import MixedColumn
from icefloe.operations.write_result import WriteResult
from icefloe.spec.schema.schema import Schema
from icefloe.table.table import Table

# The key in the summary of a snapshot that has the id of the load.
LOAD_ID = "icefloe.load-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What a load does with the rows of the files.

    Attributes:
        partition: The partition fields of a new table, such as `month(time)`.
        properties: The properties of a new table, such as `{"format-version": "3"}`.
        columns: The columns to load as text, such as `id long, time timestamptz`; by default all columns, with inferred types.
        options: The options of the reader, such as `{"sep": ";"}`.
        overwrite: Replace all rows of the table.
        upsert: The key columns of an upsert. Loaded rows replace existing rows with the same key, others are added. Each file needs every column of the table.
        where: A filter. Only rows for which it is true are loaded.
        add_columns: Add columns to the table that only the files have.
        cast_nanos: Cut timestamps of Parquet files to microseconds.
        bad_rows: What the load does with rows that cannot be loaded.
        bad_rows_file: The file for `quarantine`; by default a file beside the first input file.
        load_id: An id of the load, which the summary of the snapshot gets. A load is refused if the table's history has its id. The default id, which is
            derived from the files, is in the summary too, but no load is refused because of it.
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
        """Convert single names to lists, and check the options.

        Raises:
            InvalidInputError: Options contradict each other.
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
        write: The result of the commit.
        load_id: The id of the load, which the summary of the snapshot has.
        bad_rows: The number of rows that were not loaded because they are bad.
        first_bad_rows: The first bad rows.
        bad_rows_file: The file with all bad rows; None if there are none, or if no such file was requested.
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
    """A description of files for Spark to read.

    Attributes:
        paths: The locations of the files.
        file_format: Spark's name of the format.
        columns: The columns to load.
        read_as: All columns of the files in their order, for CSV files, whose columns Spark matches by position; otherwise equal to `columns`.
        options: The options of Spark's reader.
    """

    paths: Sequence[str]
    file_format: str
    columns: Schema
    read_as: Schema
    options: Mapping[str, str]
