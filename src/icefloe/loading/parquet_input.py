"""Reads the rows of Parquet files. Columns of different files are the same column if they have the same name; field ids are ignored."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.parquet.parquet_footer import open_parquet_for_rows
from icefloe.datafile.stored_batch import reading
from icefloe.errors import InvalidInputError, InvalidSchemaError, UnsupportedTypeError
from icefloe.loading.bad_rows import BadRow, BadRowCollector
from icefloe.loading.input_files import InputFiles
from icefloe.loading.load_progress import ProgressCounter
from icefloe.operations.upsert_source import Names, arrow_names
from icefloe.spec.schema.arrow_schema import schema_from_arrow
from icefloe.spec.temporal_arrays import python_list
from icefloe.spec.types import IcebergType, NestedField

_BATCH_ROWS: Final = 64 * 1024


class ParquetInput:
    """Reads the columns and rows of Parquet files. The attribute `row_count` is the number of rows of all files."""

    def __init__(self, files: InputFiles, *, casts_nanoseconds: bool, keeps_nanoseconds: bool) -> None:
        """Read the footer of every file.

        Args:
            files: The files.
            casts_nanoseconds: Whether timestamps in nanoseconds are cut to microseconds.
            keeps_nanoseconds: Whether the format version of the table has types for timestamps in nanoseconds.

        Raises:
            DataFileFormatError: A file is not a complete Parquet file.
            InvalidSchemaError: A file has two columns of the same name, or a column has types in two files that have no common type.
            UnsupportedTypeError: A column has a type that tables do not have; or timestamps in nanoseconds, and both flags are false.
        """
        self._files, self._casts = files, casts_nanoseconds
        schemas = []
        self._schemas: dict[str, pa.Schema] = {}
        self.row_count = 0
        for path in files.paths:
            with files.io.open_input(path) as source, reading(path):
                file, _ = open_parquet_for_rows(source, path, coerce_int96_timestamp_unit="us")
                self.row_count += file.metadata.num_rows
                self._schemas[path] = file.schema_arrow.remove_metadata()
                repeated = [name for name, count in Counter(file.schema_arrow.names).items() if count > 1]
                if repeated:
                    raise InvalidSchemaError(
                        f"{path}: the file has columns of the same name: {', '.join(map(repr, repeated))}", next_step="rename the columns"
                    )
                schemas.append(_without_metadata(file.schema_arrow))
        try:
            merged = pa.unify_schemas(schemas, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidSchemaError(
                f"the files have columns whose types cannot be joined: {error}", next_step="load them one by one"
            ) from error
        in_nanoseconds = [field.name for field in merged if _has_nanoseconds(field.type)]
        if in_nanoseconds and casts_nanoseconds:
            merged = pa.schema([field.with_type(_in_microseconds(field.type)) for field in merged])
        elif in_nanoseconds and not keeps_nanoseconds:
            raise UnsupportedTypeError(
                f"timestamps in nanoseconds, which a table of format version 2 does not have: {', '.join(in_nanoseconds)}",
                path=files.described,
                next_step="pass --cast-nanos to cut them to microseconds, or load into a table of format version 3",
            )
        self._merged = merged
        self._columns = schema_from_arrow(merged, keep_ids=False)
        self.names: list[str] = list(merged.names)

    def names_by_file(self) -> Mapping[str, Names]:
        """Return the column names of each file, by the path of the file."""
        return {path: arrow_names(list(schema)) for path, schema in self._schemas.items()}

    def infer(self, known: Mapping[str, IcebergType], progress: ProgressCounter) -> list[NestedField]:  # noqa: ARG002
        """Return the columns of all files, with the types in the files. The arguments are not used.

        Raises:
            InvalidInputError: The files have no columns.
        """
        if not self._columns.fields:
            raise InvalidInputError(f"{self._files.described}: the files have no columns", next_step="give files with columns in them")
        return list(self._columns.fields)

    def batches(self, fields: Sequence[NestedField], bad_rows: BadRowCollector, progress: ProgressCounter) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files, with the columns of `fields`, but with the types of the files.

        Rows in which a required column is null are added to `bad_rows` instead.
        """
        target = pa.schema([self._merged.field(field.name) for field in fields])
        for path in self._files.paths:
            names = [field.name for field in fields if field.name in self._schemas[path].names]
            with self._files.io.open_input(path) as source, reading(path):
                size = int(source.size())
                file, _ = open_parquet_for_rows(source, path, coerce_int96_timestamp_unit="us")
                first_row, rows = 0, max(1, file.metadata.num_rows)
                # Arrow reads a name with a dot as a path. If a name has a dot, the columns are therefore chosen after reading.
                columns_to_read = names if not any("." in name for name in names) else None
                for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns_to_read):
                    columns = [_column(batch, field) for field in target]
                    yield self._sound(pa.RecordBatch.from_arrays(columns, schema=target), fields, bad_rows, path, first_row)
                    first_row += batch.num_rows
                    progress.advance(batch.num_rows, size * first_row // rows)
            progress.end_file()

    def _sound(
        self, batch: pa.RecordBatch, fields: Sequence[NestedField], bad_rows: BadRowCollector, path: str, first_row: int
    ) -> pa.RecordBatch:
        wrong = np.zeros(batch.num_rows, bool)
        for field in fields:
            column = batch.column(field.name)
            if field.required and column.null_count:
                new = np.asarray(column.is_null()) & ~wrong
                for row in np.flatnonzero(new):
                    reason = "has no value, and the column is required"
                    text = str(
                        {name: python_list(value.slice(row, 1))[0] for name, value in zip(batch.schema.names, batch.columns, strict=True)}
                    )
                    bad_rows.add(BadRow(file=path, line=first_row + int(row) + 1, column=field.name, reason=reason, text=text))
                wrong |= new
        return batch.filter(pa.array(~wrong)) if wrong.any() else batch


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    position = batch.schema.get_field_index(field.name)
    if position < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(position)
    if column.type.equals(field.type):
        return column
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns" and field.type.unit == "us":
        # Cut towards the past, before 1970 too, so that no timestamp becomes later.
        return pc.floor_temporal(column, unit="microsecond").cast(field.type)
    return column.cast(field.type, safe=not _has_nanoseconds(column.type))


def _without_metadata(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the same names and types, but without metadata: the field ids in a file belong to another table."""
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without metadata, nullability and encodings: inner fields are nullable, all lists are `pa.list_`, and dictionaries are decoded."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(kind.field(index).name, _plain(kind.field(index).type)) for index in range(kind.num_fields)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _has_nanoseconds(kind: Any) -> bool:
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    if pa.types.is_map(kind):
        return _has_nanoseconds(kind.key_type) or _has_nanoseconds(kind.item_type)
    return any(_has_nanoseconds(kind.field(index).type) for index in range(kind.num_fields))


def _in_microseconds(kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([kind.field(index).with_type(_in_microseconds(kind.field(index).type)) for index in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_microseconds(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_in_microseconds(kind.key_type), _in_microseconds(kind.item_type))
    return kind
