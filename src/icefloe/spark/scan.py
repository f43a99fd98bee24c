"""A planned scan as a Spark DataFrame: which columns are read, which are constants per file, and by which reader.

The scan itself is `native.py`, or `portable.py` for what Spark's reader cannot read. Floor: spark. Spec: Column Projection; Scan Planning.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import StructType as SparkStruct

from icefloe.datafile.fields import fields_to_read
from icefloe.errors import UnsupportedFeatureError
from icefloe.kernel.expressions.predicate import AlwaysTrue
from icefloe.kernel.manifest.columns import ENTRY_FIELDS, partition_column
from icefloe.kernel.manifest.data_file import FileFormat
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.transforms import IdentityTransform
from icefloe.kernel.schema.schema import Schema, walk
from icefloe.kernel.types import (
    BinaryType,
    DateType,
    FixedType,
    IcebergType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icefloe.spark.filters import column_named, filter_to_column
from icefloe.spark.native import PATH_COLUMN, SIZE_COLUMN, hadoop_paths, native_rows, schemes_without_file_system
from icefloe.spark.portable import TaskReader, portable_rows
from icefloe.spark.types import COMMENT_KEY, schema_to_struct
from icefloe.table.engine import ScanRequest, refuse_deletes

LOG = logging.getLogger(__name__)

# Spark's Parquet reader refuses the uuid annotation, and reads a time only where a file calls it local.
_NOT_NATIVE = (UUIDType, TimeType)
# Arrow's type of a constant on its way to Spark, where it is not that of the physical values.
_CONSTANT_TYPES: Mapping[type[PrimitiveType], Any] = {
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"),
}


def read(spark: SparkSession, request: ScanRequest) -> DataFrame:
    """The rows of a scan, lazily: nothing is read before an action.

    Raises:
        UnsupportedFeatureError: a file is not Parquet, or has deletes.
        UnsupportedTypeError: a column's type is not one this Spark has.
        EngineError: the session is not a classic one.
    """
    refuse_deletes(request.table_name, request.plan)
    files = _files_of(request)
    _check_formats(request.table_name, files)
    needed = Schema(*fields_to_read(request.schema, request.projection, request.row_filter))
    reason = _why_not_native(spark, needed, files)
    if reason:
        LOG.warning("%s is read through Python, slower than Spark's own Parquet scan: %s", request.table_name, reason)
        reader = TaskReader(request.io, request.schema, request.projection, dict(request.specs), request.name_mapping)
        rows = portable_rows(spark, list(request.plan.tasks()), reader)
    else:
        rows = _native(spark, request, needed, files)
    return rows if request.limit is None else rows.limit(request.limit)


def _files_of(request: ScanRequest) -> Any:
    """The planned files; a plan without any still has the columns."""
    files = request.plan.files
    return files if files.num_columns else ENTRY_FIELDS.append(pa.field("spec_id", pa.int32())).empty_table()


def _of_specs(files: Any, spec_ids: Sequence[int]) -> Any:
    if set(pc.unique(files["spec_id"]).to_pylist()) <= set(spec_ids):
        return files
    return files.filter(pc.is_in(files["spec_id"], pa.array(list(spec_ids), files["spec_id"].type)))


def _check_formats(table_name: str, files: Any) -> None:
    for found in pc.unique(files["file_format"]).to_pylist():
        if found.upper() != FileFormat.PARQUET:
            path = files.filter(pc.equal(files["file_format"], found))["file_path"][0].as_py()
            raise UnsupportedFeatureError(
                f"a data file is of format {found}; only Parquet is read", table=table_name, path=path, next_step="rewrite it as Parquet"
            )


def _why_not_native(spark: SparkSession, needed: Schema, files: Any) -> str:
    names = [f"{'.'.join(path)} ({field.field_type})" for path, field in walk(needed.fields) if isinstance(field.field_type, _NOT_NATIVE)]
    if names and files.num_rows:
        return f"it cannot read {', '.join(names)}"
    with_default = [".".join(path) for path, field in walk(needed.fields) if field.initial_default is not None]
    if with_default and files.num_rows:
        return f"it does not know the initial default of {', '.join(with_default)}"
    found = pc.extract_regex(files["file_path"], r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
    schemes = {text.lower() for text in pc.unique(pc.struct_field(found, "scheme")).to_pylist() if text is not None} - {"file"}
    missing = schemes_without_file_system(spark, sorted(schemes)) if schemes else []
    return f"it has no file system for {', '.join(missing)}" if missing else ""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of one native scan: those read from files and the constants, and what each is called while Spark's reader sees it."""

    data: tuple[NestedField, ...]
    constants: tuple[NestedField, ...]
    called: Mapping[str, str]


def _native(spark: SparkSession, request: ScanRequest, needed: Schema, files: Any) -> DataFrame:
    """One scan per set of identity columns that files have; nearly always that is one."""
    called = _names_for_the_reader(needed, request.schemas)
    scans = []
    for spec_ids, constant_ids in _identity_groups(request, needed, files):
        data = tuple(field for field in needed.fields if field.field_id not in constant_ids)
        constants = tuple(field for field in needed.fields if field.field_id in constant_ids)
        scans.append(_scan(spark, request, _of_specs(files, spec_ids), spec_ids, _Columns(data, constants, called)))
    return reduce(DataFrame.unionAll, scans)


def _scan(spark: SparkSession, request: ScanRequest, files: Any, spec_ids: Sequence[int], columns: _Columns) -> DataFrame:
    arrays = {PATH_COLUMN: hadoop_paths(files["file_path"]), SIZE_COLUMN: files["file_size_in_bytes"].cast(pa.int64())}
    for place, field in enumerate(columns.constants):
        arrays[f"constant {place}"] = _constant_values(files, field, spec_ids, request.specs)
    rows = native_rows(
        spark,
        pa.table(arrays),
        constants=_called(schema_to_struct(Schema(*columns.constants), field_ids=False), columns.called),
        data=_called(schema_to_struct(Schema(*columns.data)), columns.called),
        name=request.table_name,
    )
    if not isinstance(request.row_filter, AlwaysTrue):
        rows = rows.where(filter_to_column(request.row_filter, columns.called))
    found = {field.field_id: field for field in (*columns.data, *columns.constants)}
    return rows.select(*(_output(wanted, found[wanted.field_id], columns.called) for wanted in request.projection.fields))


def _called(struct: SparkStruct, called: Mapping[str, str]) -> SparkStruct:
    for field in struct.fields:
        field.name = called[field.name]
    struct.names = [field.name for field in struct.fields]
    return struct


def _output(wanted: NestedField, read_as: NestedField, called: Mapping[str, str]) -> Column:
    """The column as the table names it, cut to the asked part of a struct, without the metadata that steered the reader."""
    column = _cut(column_named(called[read_as.name]), read_as.field_type, wanted.field_type)
    # Spark 4.0 takes empty metadata for none given and keeps the field id, which is then only seen, not used.
    return column.alias(wanted.name, metadata={COMMENT_KEY: wanted.doc} if wanted.doc is not None else {})


def _cut(column: Column, read_as: IcebergType, wanted: IcebergType) -> Column:
    if read_as == wanted or not isinstance(wanted, StructType) or not isinstance(read_as, StructType):
        return column
    parts = [_cut(column.getField(f.name), read_as.by_id[f.field_id].field_type, f.field_type).alias(f.name) for f in wanted.fields]
    return F.when(column.isNotNull(), F.struct(*parts))


def _names_for_the_reader(needed: Schema, schemas: Sequence[Schema]) -> dict[str, str]:
    """What each column is called while Spark's Parquet reader sees it: its own name, or one that no file has.

    The reader finds columns by id, but tests filters on row groups by the column's name in the file. Where a file may have another column under that name
    (columns swapped their names, or a name was dropped and used again), the wrong statistics would skip row groups that hold matching rows. A name that
    no file has turns that testing off, for this column. The history of schemas tells; where it has gaps, every column is renamed.
    """
    history: dict[tuple[str, ...], set[int]] = {}
    for schema in (*schemas, needed):
        for path, field in walk(schema.fields):
            # Without regard to case, as Spark matches by default.
            history.setdefault(tuple(part.lower() for part in path), set()).add(field.field_id)
    known = {schema.schema_id for schema in schemas}
    complete = bool(known) and known == set(range(max(known) + 1))
    called = {}
    for field in needed.fields:
        paths = [tuple(part.lower() for part in path) for path, _ in walk((field,))]
        alone = complete and all(len(history[path]) == 1 for path in paths)
        called[field.name] = field.name if alone else f"{field.name} (field {field.field_id})"
    return called


def _identity_groups(request: ScanRequest, needed: Schema, files: Any) -> Iterator[tuple[list[int], frozenset[int]]]:
    """Spec ids, grouped by the columns that are the same in every row of a file. A column that only some files have as a constant is read from the others."""
    groups: dict[frozenset[int], list[int]] = {}
    for spec_id in pc.unique(files["spec_id"]).to_pylist():
        groups.setdefault(_constant_ids(request.specs[spec_id], needed), []).append(spec_id)
    if not groups:
        groups = {frozenset(): []}
    for ids, spec_ids in groups.items():
        yield spec_ids, ids


def _constant_ids(spec: PartitionSpec, needed: Schema) -> frozenset[int]:
    tops = {field.field_id: field.field_type for field in needed.fields if isinstance(field.field_type, PrimitiveType)}
    return frozenset(
        field.source_id
        for field in spec.fields
        if isinstance(field.transform, IdentityTransform) and field.source_id in tops and not isinstance(tops[field.source_id], _NOT_NATIVE)
    )


def _constant_values(files: Any, column: NestedField, spec_ids: Sequence[int], specs: Mapping[int, PartitionSpec]) -> Any:
    """The identity partition value of each file, as Spark takes it."""
    whole = None
    for spec_id in spec_ids:
        field = next(f for f in specs[spec_id].fields if f.source_id == column.field_id and isinstance(f.transform, IdentityTransform))
        values = files[partition_column(field.field_id)]
        whole = values if whole is None else pc.if_else(pc.equal(files["spec_id"], spec_id), values, whole)
    kind = column.field_type
    target = _CONSTANT_TYPES.get(type(kind)) if isinstance(kind, PrimitiveType) else None
    if whole is None or target is None or whole.type == target:
        return whole.cast(pa.binary()) if isinstance(kind, FixedType | BinaryType) and whole is not None else whole
    return whole.cast(target)
