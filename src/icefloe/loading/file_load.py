"""`FileLoad` and `load_files`: load files into a table, in one commit or not at all.

The files are read and written in blocks, so that memory does not grow with their size. Only the rows of an upsert, and rows that must be sorted by the table's
sort order, are in memory all at once. The command `icefloe load` does the same, but may use Spark to read the rows. `load_request.py` has the arguments and
results of a load.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

import icefloe.inspect as look
from icefloe.catalog.catalog import Catalog
from icefloe.catalog.catalog_transaction import CatalogTransaction, TableInTransaction
from icefloe.catalog.new_namespace import NewNamespace
from icefloe.errors import (
    CommitUnknownError,
    IcefloeError,
    InvalidInputError,
    InvalidPartitionSpecError,
    InvalidSchemaError,
    NoSuchTableError,
    SchemaMismatchError,
    in_one_line,
)
from icefloe.loading.bad_rows import BadRowCollector, BadRows, bad_rows_path
from icefloe.loading.csv_input import CsvInput
from icefloe.loading.input_files import InputFiles, InputFormat, find_files
from icefloe.loading.json_input import JsonInput
from icefloe.loading.load_progress import ProgressCallback, ProgressCounter
from icefloe.loading.load_request import LOAD_ID, LoadRequest, LoadResult, SparkRequest
from icefloe.loading.own_files import OwnFiles
from icefloe.loading.parquet_input import ParquetInput
from icefloe.loading.reader_options import ReaderOptions, reader_options, spark_options
from icefloe.loading.table_columns import check_complete, check_letter_case, schema_of, with_new_columns, with_table_types
from icefloe.operations.upsert_source import arrow_names
from icefloe.spec.expressions.bind import bind, rewrite_not
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.identifier import dotted, to_table_identifier
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import FORMAT_VERSION
from icefloe.spec.partitioning.partition_spec import partition_spec_from_text
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.column_text import columns_from_text
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.schema.schema_cast import cast_to_schema, check_fits
from icefloe.spec.types import NestedField, StringType
from icefloe.table.table import Table

LOG = logging.getLogger(__name__)
# If the files have at most this many bytes in total, their rows are sorted by the table's sort order in memory. Rows of larger files are not sorted as a whole.
SORTED_BYTES: Final = 256 * 1024 * 1024
# The beginning of the problem text about a column that the table does not have. More text follows if a column differs only in letter case.
_NOT_A_COLUMN: Final = "is not a column of the table"


def load_files(
    catalog: Catalog,
    table: str,
    files: str | Sequence[str],
    *,
    file_format: str | None = None,
    progress: ProgressCallback | None = None,
    **request: Any,
) -> LoadResult:
    """Load files into a table, in one commit. The table and its namespace are created if they do not exist. If the load fails, nothing is changed.

    Args:
        catalog: The catalog of the table.
        table: The name of the table, such as `namespace.table`.
        files: Paths or locations of files and folders, or patterns with `*`, `?` or `[`. All files have the same format: CSV with a header line, JSON or
            Parquet.
        file_format: `csv`, `json` or `parquet`; needed only if the names of the files do not have a known ending, such as `.csv.gz`.
        progress: Called again and again with the numbers of rows and bytes that have been read so far.
        **request: Values for the fields of `LoadRequest`, such as `upsert=["id"]`.

    Returns:
        The table, the result of the commit, and the bad rows.

    Raises:
        InvalidInputError: A row cannot be loaded and `bad_rows` is `fail`, no row can be loaded, or an argument is wrong.
        SchemaMismatchError: The files do not fit the table, or a file of an upsert lacks a column of the table.
        NoSuchFileError: A file does not exist.
        CommitConflictError, CommitUnknownError: The commit failed or may have failed, see `Table.append`.
    """
    if file_format is not None and file_format not in list(InputFormat):
        raise InvalidInputError(f"{file_format!r} is not a format that can be loaded", next_step=f"choose one of {', '.join(InputFormat)}")
    texts = [files] if isinstance(files, str) else list(files)
    input_files = find_files(texts, None if file_format is None else InputFormat(file_format), catalog.properties)
    load = FileLoad(catalog, table, input_files, LoadRequest(**request))
    with load.all_or_nothing():
        load.open(progress)
        return load.write(load.rows(progress))


class FileLoad:
    """One load of files into a table. Within a `with` block of `all_or_nothing`, call `open` to determine the columns, `rows` to read the rows, and `write`."""

    def __init__(self, catalog: Catalog, table: str, files: InputFiles, request: LoadRequest) -> None:
        """Check the request, and load the table from the catalog if it exists. Nothing is created.

        The attribute `load_id` is the id of the load, which the summary of the snapshot will contain.

        Raises:
            InvalidInputError: An option of the reader cannot be set, the request has properties and the table exists already, or a snapshot of the table has
                the requested load id already.
            InvalidPartitionSpecError: The table exists and is not partitioned as the request requires.
        """
        self._catalog, self._request, self.files = catalog, request, files
        self.name = to_table_identifier(table, of_server=catalog.has_names_of_server)
        self.options: ReaderOptions = reader_options(request.options or {}, files.format)
        self._declared = columns_from_text(request.columns) if request.columns is not None else None
        self._filter = to_expression(request.where) if request.where is not None else None
        self._existing = self._table_if_exists()
        self._namespace = NewNamespace(catalog, self.name[:-1])
        self._state_before = self._existing.state if self._existing is not None else None
        self._transaction: CatalogTransaction | None = None
        self._member: TableInTransaction | None = None
        self._own_files = OwnFiles()
        self._is_commit_begun = False
        self._fields: tuple[NestedField, ...] = ()
        self._filtered = 0
        self.bad_rows = BadRowCollector(BadRows(request.bad_rows), request.bad_rows_file or bad_rows_path(files.paths[0]))
        if self._existing is not None and request.properties:
            raise InvalidInputError(
                f"{self._existing.full_name} exists, and --property sets properties of a new table",
                table=self._existing.full_name,
                next_step="omit --property, and set properties with `icefloe properties`",
            )
        self.load_id = self._load_id()
        if self._existing is not None and request.partition:
            _check_same_partitioning(self._existing, request.partition)

    def _load_id(self) -> str:
        """Return the id of the load: the requested id, or else an id that is derived from the files and that no earlier load of the table has.

        Raises:
            InvalidInputError: A snapshot of the table has the requested id already.
        """
        name = dotted(self.name)
        if self._request.load_id is not None:
            if self._existing is not None:
                _check_new(self._existing.metadata, self._request.load_id, name)
            return self._request.load_id
        fingerprint = self.files.fingerprint
        snapshots = () if self._existing is None else self._existing.metadata.snapshots
        earlier = [shot for shot in snapshots if shot.summary.get(LOAD_ID, "").partition("-")[0] == fingerprint]
        if earlier and not (self._request.overwrite or self._request.upsert):
            LOG.warning(
                "%s was loaded into %s before, by snapshot %d, and its rows are added once more; --load-id %s, or load_id=..., would refuse this",
                in_one_line(self.files.described),
                in_one_line(name),
                earlier[-1].snapshot_id,
                earlier[-1].summary[LOAD_ID],
            )
        return f"{fingerprint}-{len(earlier) + 1}" if earlier else fingerprint

    @property
    def schema(self) -> Schema:
        """The columns of the rows that `rows` reads, with the types that their values are converted to. Valid after `open`."""
        return Schema(*self._fields)

    @property
    def creates_table(self) -> bool:
        """Whether the load creates the table, because it did not exist when the load began."""
        return self._existing is None

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo the load if the `with` block ends in an error or an interrupt and nothing was committed: no table, namespace, data file or bad-row file is left.

        Raises:
            CommitUnknownError: The commit may have happened, so nothing that it may need was deleted.
        """
        with self._namespace.dropped_on_error():
            try:
                yield
            except CommitUnknownError:
                raise
            except BaseException as error:
                self._undo(error)
                raise

    def open(self, progress: ProgressCallback | None = None) -> None:
        """Determine the columns of the files, and add the new table or the new columns to a transaction, which `write` commits.

        Raises:
            InvalidInputError: There are no rows, or a file is damaged.
            InvalidSchemaError: The files lack a column that the request names, or their columns cannot be combined.
            SchemaMismatchError: The columns of the files do not fit the table.
        """
        self._input = self._opened_input()
        counter = ProgressCounter(progress, "columns", self.files.size)
        table_fields = self._existing.schema().fields if self._existing is not None else ()
        if self._declared is not None:
            fields = self._declared_fields()
        else:
            fields = self._input.infer({field.name: field.field_type for field in table_fields}, counter)
        if self.files.format is InputFormat.JSON:
            fields = with_table_types(fields, table_fields)
        required = {field.name for field in table_fields if field.required}
        self._fields = schema_of(replace(field, required=field.required or field.name in required) for field in fields).fields
        self._check_names()
        transaction = self._transaction = self._catalog.transaction()
        if self._existing is None:
            self._member = self._stage_changes(transaction)
        else:
            self._member = transaction.load_table(self.name)
            self._fit(self._member)
        if self._filter is not None:
            # The filter is checked before any row is read.
            bind(self._filter, self._member.table_metadata.schema())

    def rows(self, progress: ProgressCallback | None = None) -> Any:
        """Return the rows as a `pyarrow.RecordBatchReader`, which reads them when they are needed; or as a table if they must be sorted.

        Bad rows are added to `bad_rows` while the rows are read.
        """
        assert self._member is not None, "open() comes first"  # noqa: S101
        schema = self._member.table_metadata.schema()
        reader = pa.RecordBatchReader.from_batches(schema_to_arrow(schema), self._batches(schema, progress))
        is_sorted = bool(self._member.table_metadata.sort_order().fields)
        return reader.read_all() if is_sorted and self.files.size <= SORTED_BYTES else reader

    def spark_request(self, progress: ProgressCallback | None = None) -> SparkRequest:
        """Return a description of the files, with which Spark reads the same rows as `rows`. Call this only if `spark_obstacle` returns None."""
        columns = self.schema
        read_as = columns
        options = spark_options(self.options, self.files.format)
        if isinstance(self._input, CsvInput):
            # Spark matches the columns of CSV files by position.
            fields_by_name = {field.name: field for field in columns.fields}
            names = enumerate(self._input.names, start=1)
            read_as = schema_of(fields_by_name.get(name, NestedField(number, name, StringType())) for number, name in names)
            counter = ProgressCounter(progress, "columns", self.files.size)
            options["multiLine"] = str(self._input.has_line_breaks(counter)).lower()
        return SparkRequest(paths=self.files.paths, file_format=self.files.format.value, columns=columns, read_as=read_as, options=options)

    def spark_obstacle(self) -> str | None:
        """Return why Spark cannot load the files, as a text such as "CSV files with different columns"; None if Spark can load them."""
        if isinstance(self._input, CsvInput) and self._input.has_different_headers:
            return "CSV files with different columns"
        if isinstance(self._input, JsonInput) and not self._input.has_objects_on_lines():
            # Spark would read only one value of each file.
            return "JSON with an object over several lines, or an array"
        if isinstance(self._input, JsonInput) and self._existing is not None and self._request.upsert:
            # Spark reads a missing field of an object as null, which would replace the table's value.
            return "JSON with --upsert"
        return None

    def count_bad_rows(self, progress: ProgressCallback | None = None) -> None:
        """Read all rows without writing them, to find all bad rows after Spark has stopped at the first one.

        Raises:
            InvalidInputError: A row is bad and the policy is `fail`, or all rows are bad.
        """
        for _ in self.rows(progress):
            pass

    def write(self, rows: Any) -> LoadResult:
        """Write the rows, and commit them together with the new table or columns, in one commit. Raises the errors of `Table.append`.

        Args:
            rows: The result of the method `rows`, or a Spark DataFrame with the rows of the same files.

        Returns:
            The table, the result of the commit, and the bad rows.
        """
        member, transaction = self._member, self._transaction
        assert member is not None, "open() comes first"  # noqa: S101
        assert transaction is not None  # noqa: S101
        summary = {LOAD_ID: self.load_id}
        if self._request.load_id is not None:
            member.check_bases(partial(_check_new, load_id=self.load_id, table=dotted(self.name)))
        try:
            if self._request.upsert:
                written = member.upsert(rows, list(self._request.upsert), snapshot_properties=summary)
            elif self._request.overwrite and self._existing is not None:
                written = member.overwrite(rows, snapshot_properties=summary)
            else:
                written = member.append(rows, snapshot_properties=summary)
        except SchemaMismatchError:
            raise
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"the rows cannot be read: {error}",
                path=self.files.described,
                next_step="check the file with another reader; icefloe load --help lists the options of the format",
            ) from error
        self.bad_rows.publish()
        self._is_commit_begun = True
        transaction.commit_transaction()
        table = member.table or self._catalog.load_table(self.name)
        return LoadResult(
            table=table,
            write=replace(written, attempts=member.attempts),
            load_id=self.load_id,
            bad_rows=self.bad_rows.count,
            first_bad_rows=tuple(self.bad_rows.first),
            bad_rows_file=self.bad_rows.path if self.bad_rows.count else None,
            filtered_rows=self._filtered,
            mixed_columns=tuple(self._input.mixed_columns) if isinstance(self._input, CsvInput) else (),
        )

    def may_be_committed(self, error: BaseException) -> bool:
        """Return whether the load may have been committed. The result is False only if it was certainly not committed.

        Args:
            error: The error that ended the load. If it is not an `IcefloeError`, such as an interrupt, a commit that had begun may have happened.
        """
        if self._is_commit_begun and not isinstance(error, IcefloeError):
            return True
        try:
            current = self._table_if_exists()
        except IcefloeError:
            return True
        # The table may have been changed by another writer instead. The files of this load are kept in that case too.
        return (None if current is None else current.state) != self._state_before

    def _opened_input(self) -> CsvInput | JsonInput | ParquetInput:
        if self.files.format is InputFormat.CSV:
            return CsvInput(self.files, self.options, merges_columns=self._request.add_columns)
        if self.files.format is InputFormat.JSON:
            replaced = self._existing.schema().fields if self._existing is not None and self._request.upsert else ()
            return JsonInput(self.files, self.options, replaced=replaced)
        if self._existing is not None:
            version = self._existing.metadata.format_version
        else:
            version = FORMAT_VERSION.read(self._catalog.configured_properties(self._request.properties))
        return ParquetInput(self.files, casts_nanoseconds=self._request.cast_nanos, keeps_nanoseconds=version >= 3)

    def _table_if_exists(self) -> Table | None:
        try:
            return self._catalog.load_table(self.name)
        except NoSuchTableError:
            return None

    def _declared_fields(self) -> list[NestedField]:
        assert self._declared is not None  # noqa: S101
        names = self._input.names
        missing = [field.name for field in self._declared.fields if names is not None and field.name not in names]
        if missing:
            raise InvalidSchemaError(
                f"the files have no column {', '.join(map(repr, missing))}", next_step=f"they have {', '.join(names or ())}"
            )
        return list(self._declared.fields)

    def _check_names(self) -> None:
        names = [field.name for field in self._fields]
        missing = [key for key in self._request.upsert if key.partition(".")[0] not in names]
        if missing:
            raise InvalidSchemaError(
                f"--upsert: the files have no column {', '.join(map(repr, missing))}", next_step=f"they have {', '.join(names)}"
            )

    def _stage_changes(self, transaction: CatalogTransaction) -> TableInTransaction:
        check_letter_case(Schema(), self.schema, dotted(self.name))
        schema = assign_fresh_ids(self.schema)
        request = self._request
        member = self._namespace.create_for(
            lambda: transaction.create_table(
                self.name, schema, partition_spec=list(request.partition), properties=dict(request.properties or {})
            )
        )
        member.restore_namespace(self._namespace.create)
        member.use_ids(self._own_files.ids)
        self._own_files.begin_table(member.table_metadata.location)
        return member

    def _fit(self, member: TableInTransaction) -> None:
        """Check that the columns of the files fit the table. If the request has `add_columns`, first add columns that the table does not have."""
        if self._request.upsert:
            self._check_complete(member.table_metadata.schema())
        if self._request.add_columns:
            columns = schema_of(with_new_columns(member.table_metadata.schema().fields, self._fields))
            check_letter_case(member.table_metadata.schema(), columns, dotted(self.name))
            with member.update_schema() as update:
                update.union_by_name(columns)
        try:
            check_fits(schema_to_arrow(self.schema), member.table_metadata.schema())
        except SchemaMismatchError as error:
            new = [problem.what for problem in error.problems if problem.what.startswith(_NOT_A_COLUMN)]
            # A column whose name differs only in letter case from another one's cannot be added.
            can_add = bool(new) and all(what == _NOT_A_COLUMN for what in new)
            next_step = "pass --add-columns to add the new columns to the table" if can_add else error.next_step
            raise SchemaMismatchError(
                error.message, table=dotted(self.name), path=self.files.described, problems=error.problems, next_step=next_step
            ) from error

    def _check_complete(self, schema: Schema) -> None:
        """Check that each file of an upsert has all columns of the table, because a missing column would become null in the replaced rows.

        Raises:
            SchemaMismatchError: A file lacks a column.
        """
        loaded = arrow_names(list(schema_to_arrow(self.schema)))
        # For JSON, the fields of all objects of all files count together; an object that lacks one of them is a bad row.
        names_by_file = {self.files.described: loaded} if isinstance(self._input, JsonInput) else self._input.names_by_file()
        check_complete(names_by_file, loaded, schema, dotted(self.name))

    def _batches(self, schema: Schema, progress: ProgressCallback | None) -> Iterator[pa.RecordBatch]:
        counter = ProgressCounter(progress, "rows", self.files.size)
        row_filter = None if self._filter is None else rewrite_not(bind(self._filter, schema))
        rows = kept = 0
        for batch in self._input.batches(self._fields, self.bad_rows, counter):
            rows += batch.num_rows
            if self.bad_rows.has_failed:
                continue  # further bad rows are only counted, and no more rows are written
            table = cast_to_schema(pa.Table.from_batches([batch]), schema)
            if row_filter is not None:
                table = table.filter(arrow_mask(row_filter, table))
            kept += table.num_rows
            yield from table.to_batches()
        self._filtered = rows - kept
        if self.bad_rows.has_failed or (self.bad_rows.count and not rows):
            raise self.bad_rows.error(rows)
        if not rows:
            raise InvalidInputError(f"{self.files.described}: there are no rows", next_step="name files that contain rows")

    def _undo(self, error: BaseException) -> None:
        """Delete what the load wrote, unless it may have been committed. An error of the deletion is only logged, because the error of the load is raised."""
        may_be_committed = True
        try:
            if self._transaction is not None:
                self._transaction.give_up()
            may_be_committed = self.may_be_committed(error)
            if self._existing is None and not may_be_committed:
                self._own_files.delete()
        except Exception as failure:  # noqa: BLE001  whatever the catalog or the storage fails with
            LOG.warning("files of the failed load into %s may remain: %s", in_one_line(dotted(self.name)), in_one_line(str(failure)))
        self.bad_rows.discard(keeps_published=may_be_committed)


def _check_same_partitioning(table: Table, texts: Sequence[str]) -> None:
    if not partition_spec_from_text(table.schema(), texts).is_equivalent(table.spec()):
        raise InvalidPartitionSpecError(
            f"{table.full_name} exists and is partitioned by {look.table(table).partitioning}, not by {', '.join(texts)}",
            table=table.full_name,
            next_step="omit --partition to load into the table as it is, or choose another table",
        )


def _check_new(metadata: TableMetadata, load_id: str, table: str) -> None:
    """Refuse a load whose id a snapshot of the table has already, because its rows would be added again.

    A load that was killed after its commit can therefore be repeated safely.

    Raises:
        InvalidInputError: A snapshot of the table has the id of the load.
    """
    for snapshot in metadata.snapshots:
        if snapshot.summary.get(LOAD_ID) == load_id:
            raise InvalidInputError(
                f"the load {load_id!r} is in {table} already: snapshot {snapshot.snapshot_id} has its rows",
                table=table,
                snapshot_id=snapshot.snapshot_id,
                next_step="nothing is left to do for this load; another one has another --load-id",
            )
