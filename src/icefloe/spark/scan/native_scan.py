"""Planned files as rows of Spark's own Parquet scan: columns found by field id, constants per file, deleted rows left out, metadata columns.

Which files may be read so is decided in `read_strategy.py`; the scan itself is `spark_parquet_scan.py`. Spec: Column Projection; Row-level Deletes;
Row Lineage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import IntegerType, LongType, StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.datafile.projected_fields import kept_fields
from icefloe.kernel.expressions.bind import predicates
from icefloe.kernel.expressions.predicate import AlwaysTrue
from icefloe.kernel.manifest.manifest_columns import partition_column
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.transforms import IdentityTransform
from icefloe.kernel.schema.metadata_columns import DELETED, PARTITION_FIELD_ID
from icefloe.kernel.schema.schema import Schema, walk
from icefloe.kernel.schema.schema_history import is_complete_history
from icefloe.kernel.types import DoubleType, FloatType, IcebergType, NestedField, PrimitiveType, StructType, UnknownType
from icefloe.kernel.values import physical_array
from icefloe.spark.scan.deleted_rows import DeletedRows
from icefloe.spark.scan.equality_deletes import GROUP_COLUMN, EqualityDeletes, dropped_key, without_deleted_keys
from icefloe.spark.scan.filter_columns import column_named, filter_to_column
from icefloe.spark.scan.metadata_column_values import (
    OF_POSITIONS,
    OWN_PREFIX,
    POSITION_COLUMN,
    MetadataColumns,
    asked_metadata,
    row_position,
)
from icefloe.spark.scan.read_strategy import FileGroup
from icefloe.spark.scan.spark_parquet_scan import PATH_COLUMN, SIZE_COLUMN, hadoop_paths, native_rows, select_as
from icefloe.spark.types.partition_constants import as_constant
from icefloe.spark.types.spark_types import COMMENT_KEY, schema_to_struct
from icefloe.table.engine import ScanRequest

# What Spark calls the struct of what it knows of a row's place, a column of every scan of files.
SPARK_METADATA = "_metadata"


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of one native scan: those read from files and the constants, what each is called while Spark's reader sees it, and metadata columns."""

    data: tuple[NestedField, ...]
    constants: tuple[NestedField, ...]
    called: Mapping[str, str]
    metadata: MetadataColumns


def native_scan(spark: SparkSession, request: ScanRequest, needed: Schema, share: FileGroup) -> DataFrame:
    """The rows of a share, in the columns of the projection. `needed` is the part of the table's schema that the projection and the filter need."""
    equality = share.equality
    dropped = () if equality is None else tuple(key for key in equality.key_columns if key.field_id not in request.schema)
    if equality is not None:
        needed = _with_keys(needed, request.schema, equality)
    # Whatever a file holds in a column of unknown type, it is null. Spec: Parquet (Appendix A).
    unknown = frozenset(field.field_id for field in needed.fields if isinstance(field.field_type, UnknownType))
    constant = share.constant_ids | share.missing
    columns = _Columns(
        data=(*(field for field in needed.fields if field.field_id not in constant | unknown), *map(_as_dropped, dropped)),
        constants=tuple(field for field in needed.fields if field.field_id in constant),
        called=names_for_the_reader(needed, request.schemas) | {dropped_key(key): dropped_key(key) for key in dropped},
        metadata=_metadata_columns(request),
    )
    deleted = None if share.vectors is None else DeletedRows(share.vectors, share.files["record_count"].to_pylist())
    rows = _scan(spark, request, share, columns, deleted)
    is_deleted = F.lit(False) if deleted is None else deleted.test(spark, row_position())
    made = columns.metadata.columns(is_deleted) | {field_id: F.lit(None) for field_id in unknown}
    if not isinstance(request.row_filter, AlwaysTrue):  # before what is deleted: it may leave few rows to look up
        asked = {test.path[0]: made[test.field.field_id] for test in predicates(request.row_filter) if test.field.field_id in made}
        rows = rows.where(filter_to_column(request.row_filter, {**columns.called, **asked}))
    if deleted is not None and DELETED.field_id not in request.projection:
        rows = rows.where(~is_deleted)
    if equality is not None:
        rows = without_deleted_keys(spark, rows, request, equality, columns.called)
    found = {field.field_id: field for field in (*columns.data, *columns.constants)}
    return select_as(rows, (_output(wanted, found, columns.called, made) for wanted in request.projection.fields))


def _with_keys(needed: Schema, schema: Schema, equality: EqualityDeletes) -> Schema:
    """What must be read together with the key columns of equality deletes, of those that the table has."""
    ends = {
        field.field_id for _, field in walk(needed.fields) if not (isinstance(field.field_type, StructType) and field.field_type.fields)
    }
    return Schema(*kept_fields(schema.fields, ends | {key.field_id for key in equality.key_columns}))


def _as_dropped(key: NestedField) -> NestedField:
    return NestedField(key.field_id, dropped_key(key), key.field_type)


def _metadata_columns(request: ScanRequest) -> MetadataColumns:
    partition = next((field.field_type for field in request.projection.fields if field.field_id == PARTITION_FIELD_ID), None)
    return MetadataColumns(asked_metadata(request), partition if isinstance(partition, StructType) else StructType())


def _scan(spark: SparkSession, request: ScanRequest, share: FileGroup, columns: _Columns, deleted: DeletedRows | None) -> DataFrame:
    files = share.files
    arrays = {PATH_COLUMN: hadoop_paths(files["file_path"]), SIZE_COLUMN: files["file_size_in_bytes"].cast(pa.int64())}
    for place, field in enumerate(columns.constants):
        if field.field_id in share.missing:
            arrays[f"constant {place}"] = _defaults(files.num_rows, field)
        else:
            arrays[f"constant {place}"] = _constant_values(files, field, request.specs)
    constants = list(_called(schema_to_struct(Schema(*columns.constants), field_ids=False), columns.called).fields)
    for struct, more in (columns.metadata.constants(files), *([] if deleted is None else [deleted.constants()])):
        constants += struct.fields
        arrays |= more
    if share.equality is not None and share.equality.tells_groups:
        constants.append(StructField(GROUP_COLUMN, IntegerType(), False))
        arrays[GROUP_COLUMN] = pa.array(share.equality.groups, pa.int32())
    stored = columns.metadata.stored
    called = {**columns.called, **{field.name: field.name for field in stored}}
    data = _called(schema_to_struct(Schema(*columns.data, *stored)), called)
    if deleted is not None or columns.metadata.field_ids & OF_POSITIONS:
        data = data.add(POSITION_COLUMN, LongType())
    rows = pc.sum(files["record_count"]).as_py() or 0
    return native_rows(spark, pa.table(arrays), constants=SparkStruct(constants), data=data, name=request.table_name, rows=rows)


def _called(struct: SparkStruct, called: Mapping[str, str]) -> SparkStruct:
    for field in struct.fields:
        field.name = called[field.name]
    struct.names = [field.name for field in struct.fields]
    return struct


def _output(
    wanted: NestedField, found: Mapping[int, NestedField], called: Mapping[str, str], made: Mapping[int, Column]
) -> tuple[str | Column, str, Mapping[str, str]]:
    """The column as the table names it, cut to the asked part of a struct, without the metadata that steered the reader."""
    column: str | Column
    if wanted.field_id in made:
        column = made[wanted.field_id]
    else:
        read_as = found[wanted.field_id]
        name = called[read_as.name]
        column = _cut(column_named(name), read_as.field_type, wanted.field_type) if _is_cut(read_as.field_type, wanted.field_type) else name
    # Spark 4.0 takes empty metadata for none given and keeps the field id, which is then only seen, not used.
    return column, wanted.name, {COMMENT_KEY: wanted.doc} if wanted.doc is not None else {}


def _is_cut(read_as: IcebergType, wanted: IcebergType) -> bool:
    return read_as != wanted and isinstance(wanted, StructType)


def _cut(column: Column, read_as: IcebergType, wanted: IcebergType) -> Column:
    if not (_is_cut(read_as, wanted) and isinstance(wanted, StructType) and isinstance(read_as, StructType)):
        return column
    parts = [_cut(column.getField(f.name), read_as.by_id[f.field_id].field_type, f.field_type).alias(f.name) for f in wanted.fields]
    return F.when(column.isNotNull(), F.struct(*parts))


def names_for_the_reader(needed: Schema, schemas: Sequence[Schema]) -> dict[str, str]:
    """What each column is called while Spark's Parquet reader sees it: its own name, or one that no file has.

    The reader finds columns by id, but tests filters on row groups by the column's name in the file. Where a file may have another column under that name
    (columns swapped their names, or a name was dropped and used again), the wrong statistics would skip row groups that hold matching rows. A name that
    no file has turns that testing off, for this column. The history of schemas tells; where it has gaps, every column is renamed.

    Columns with floats are renamed too: the greatest value of a row group leaves out NaN, which Spark has above all others, and dictionaries and bloom filters
    tell -0.0 from 0.0, which are equal in Spark.
    """
    history: dict[tuple[str, ...], set[int]] = {}
    for schema in (*schemas, needed):
        for path, field in walk(schema.fields):
            # Without regard to case, as Spark matches by default.
            history.setdefault(tuple(part.lower() for part in path), set()).add(field.field_id)
    complete = is_complete_history(schemas)
    called = {}
    for field in needed.fields:
        paths = [tuple(part.lower() for part in path) for path, _ in walk((field,))]
        alone = complete and all(len(history[path]) == 1 for path in paths)
        own = field.name.lower()
        alone = alone and not any(isinstance(inner.field_type, FloatType | DoubleType) for _, inner in walk((field,)))
        alone = alone and own not in (SPARK_METADATA, POSITION_COLUMN) and not own.startswith(OWN_PREFIX)
        called[field.name] = field.name if alone else f"{field.name} (field {field.field_id})"
    return called


def _constant_values(files: Any, column: NestedField, specs: Mapping[int, PartitionSpec]) -> Any:
    """The identity partition value of each file, as Spark takes it."""
    whole = None
    for spec_id in pc.unique(files["spec_id"]).to_pylist():
        field = next(f for f in specs[spec_id].fields if f.source_id == column.field_id and isinstance(f.transform, IdentityTransform))
        values = files[partition_column(field.field_id)]
        whole = values if whole is None else pc.if_else(pc.equal(files["spec_id"], spec_id), values, whole)
    return as_constant(pa.nulls(0) if whole is None else whole, column.field_type)


def _defaults(count: int, column: NestedField) -> Any:
    """The initial default of a column for each of so many files, as Spark takes it."""
    kind = column.field_type
    values = [column.initial_default] * count
    return as_constant(physical_array(kind, values) if isinstance(kind, PrimitiveType) else pa.nulls(count), kind)
