"""Spark's own vectorized Parquet scan over planned files. It finds columns by field id, adds values that are constant per file, and skips deleted rows.

`read_strategy.py` decides which files are read in this way. The JVM receives the planned files as one Arrow stream, from which `bridge/java/PlannedFiles.java`
creates Spark's file index. Spec: Column Projection; Row-level Deletes; Row Lineage.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.errors import EngineError
from icefloe.io.locations import local_path, scheme_of
from icefloe.operations.engine import ScanRequest
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.spark.bridge.gateway import executors_have_classes, java_class, java_message, new_object
from icefloe.spark.scan.equality_deletes import GROUP_COLUMN, EqualityDeletes, dropped_key, union_deletes, without_deleted_keys
from icefloe.spark.scan.filter_to_spark import filter_to_column
from icefloe.spark.scan.metadata_column_values import (
    DELETED_ROWS_COLUMN,
    OF_POSITIONS,
    POSITION_COLUMN,
    MetadataColumns,
    as_constant,
    is_row_deleted,
)
from icefloe.spark.scan.position_deletes import NUMBER_COLUMN, DeletedRows
from icefloe.spark.scan.reader_names import ReaderNames, has_uuid, names_for_the_reader
from icefloe.spark.scan.scan_metrics import ScanMetric
from icefloe.spark.types.spark_types import (
    COMMENT_KEY,
    column_named,
    differs_by_case,
    field_inside,
    quote_name,
    row_width,
    schema_to_struct,
)
from icefloe.spec.expressions.bind import predicates
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.manifest_columns import ENTRY_FIELDS, partition_column
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.schema.metadata_columns import DELETED, PARTITION_FIELD_ID, is_reserved
from icefloe.spec.schema.schema import Schema, fields_to_read
from icefloe.spec.types import IcebergType, NestedField, PrimitiveType, StructType, UnknownType
from icefloe.spec.values import physical_array

# The first columns in the table of files for the JVM; a column for each constant follows.
PATH_COLUMN, SIZE_COLUMN = "path", "size"
# Options of the reader, which override the session's settings. Iceberg's columns are found by id, and its calendar is always Gregorian.
READER_OPTIONS: Mapping[str, str] = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # Missing and damaged files, and files without field ids, are errors and must not be skipped silently.
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # A struct is not null because a file lacks all of its requested fields. Spark before 4.1 does not have this setting, see `read_strategy.py`.
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "false",
}
# The Java objects that create native scans, by application.
_NATIVE_SCANS: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()
# Level 1 of deflate is the fastest; it reduces paths to a tenth.
_DEFLATE_LEVEL = 1
# Bytes that Spark estimates for each column that is only for the scan itself.
_WIDTHS_OF_HIDDEN_COLUMNS: Mapping[type, int] = {BooleanType: 1, IntegerType: 4}
_WIDTH_OF_OTHERS = 8


# A function that returns a value for each file, as an Arrow array. Its argument is a table with the columns of `ScanPlan.files`.
FileValues = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class ScanFileGroup:
    """Files of a plan that are read together with the same strategy; `read_strategy.py` divides a plan into such groups.

    Attributes:
        parts: The files.
        reason: The reason why Spark's own scan cannot read the files; empty if it can. The attributes below are only for Spark's own scan.
        constant_ids: Ids of columns with one value per file, which comes from the file's partition.
        missing: Ids of columns that none of the files has, so that all rows have the column's initial default.
        deleted: The deleted positions of each file, in the order of the files; None if there are no deleted positions.
        equality: The equality deletes that apply; None if there are none.
        kept: The estimated share of the rows that Spark's filters keep.
        accelerator_obstacle: Why no accelerator may read the files; None if one may.
        metrics: What Spark's SQL tab shows for this group.
    """

    parts: tuple[PlannedFiles, ...]
    reason: str = ""
    constant_ids: frozenset[int] = frozenset()
    missing: frozenset[int] = frozenset()
    deleted: DeletedRows | None = None
    equality: EqualityDeletes | None = None
    kept: float = 1.0
    accelerator_obstacle: str | None = None
    metrics: Sequence[ScanMetric] = ()

    @property
    def files(self) -> Any:
        """The files as one `pyarrow.Table`, with the columns of `ScanPlan.files`."""
        tables = [part.entries for part in self.parts]
        if not tables:  # a plan without files has the columns too
            return ENTRY_FIELDS.append(pa.field("spec_id", pa.int32())).empty_table()
        return pa.concat_tables(tables, promote_options="permissive")


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a native scan of a file group.

    Attributes:
        data: The columns that are read from the files; the last may be key columns that were dropped from the table.
        constants: The columns with one value per file.
        unknown: The ids of the columns of type unknown, which are always null.
        names: The names of the columns in Spark's reader.
        metadata: The metadata columns; None if the scan reads no metadata columns.
    """

    data: tuple[NestedField, ...]
    constants: tuple[NestedField, ...]
    unknown: frozenset[int]
    names: ReaderNames
    metadata: MetadataColumns | None

    @property
    def reader_names(self) -> Mapping[str, str]:
        """The names in Spark's reader of the top-level columns, by their names in the table."""
        return self.names.columns


def native_scan(spark: SparkSession, request: ScanRequest, needed: Schema, group: ScanFileGroup) -> DataFrame:
    """Return the rows of a file group that match the filter and are not deleted, as a DataFrame with the columns of the projection.

    Args:
        spark: A classic session.
        request: The scan.
        needed: The part of the table's schema that the projection and the filter use.
        group: Files that Spark's own scan reads.
    """
    columns = _columns(request, needed, group)
    rows = native_rows(spark, **_files_and_columns(request, group, columns))
    return _project(spark, request, rows, columns, group.equality, reads_deleted=_reads_deleted(request, group))


def _project(
    spark: SparkSession, request: ScanRequest, rows: DataFrame, columns: _Columns, equality: EqualityDeletes | None, *, reads_deleted: bool
) -> DataFrame:
    """Apply the filter and the equality deletes to rows of files, and return the columns of the projection.

    Args:
        spark: A classic session.
        request: The scan.
        rows: The rows of the files in the form in which Spark reads them. They contain rows that are deleted by position only if the projection has `_deleted`.
        columns: The columns of the scan.
        equality: The equality deletes that apply; None if there are none.
        reads_deleted: Whether `rows` have the column `DELETED_ROWS_COLUMN`.
    """
    computed = {field_id: F.lit(None) for field_id in columns.unknown}
    computed |= columns.names.texts_of_uuids(columns.data)
    rows = columns.names.restore(rows, columns.data)
    types = {field.name: field.dataType for field in rows.schema.fields} if differs_by_case(columns.data) else {}
    if columns.metadata is not None:
        computed |= columns.metadata.columns(is_row_deleted() if reads_deleted else F.lit(False))
    if not isinstance(request.row_filter, AlwaysTrue):  # before the equality deletes, because the filter may leave few rows to look up
        metadata_columns = {
            test.path[0]: computed[test.field.field_id] for test in predicates(request.row_filter) if test.field.field_id in computed
        }
        rows = rows.where(filter_to_column(request.row_filter, {**columns.reader_names, **metadata_columns}, types))
    if equality is not None:
        rows = without_deleted_keys(spark, rows, request, equality, columns.reader_names)
    return select_as(rows, (_output(field, columns, computed, types) for field in request.projection.fields))


def native_plan(spark: SparkSession, request: ScanRequest, needed: Schema, group: ScanFileGroup, non_null: Set[int] = frozenset()) -> Any:
    """Return the rows of `native_scan` as a logical plan of Spark, already analyzed and optimized, which is faster than Spark's own planning.

    Args:
        spark: A classic session.
        request: The scan.
        needed: The part of the table's schema that the projection and the filter use.
        group: Files that Spark's own scan reads.
        non_null: Ids of columns without nulls that the query filters by IS NOT NULL.

    Returns:
        The plan; None if the rows must be filtered, equality deletes apply, or a column must be computed. Then Spark must plan the DataFrame of `native_scan`.

    Raises:
        EngineError: The session has no JVM, or the Java classes do not work on this version of Spark.
    """
    columns = _columns(request, needed, group)
    names = None if group.equality is not None else _plain_names(request, columns)
    if names is None:
        return None
    required = [columns.reader_names[field.name] for field in (*columns.data, *columns.constants) if field.field_id in non_null]
    return native_relation(spark, **_files_and_columns(request, group, columns), names=names, non_null=required)


def _plain_names(request: ScanRequest, columns: _Columns) -> str | None:
    """Return the argument `names` of `native_relation` for the projection; None if rows are filtered, or a column is computed or has renamed fields."""
    if not isinstance(request.row_filter, AlwaysTrue) or columns.unknown or columns.metadata is not None or columns.names.renamed_inside:
        return None
    if any(map(has_uuid, columns.data)):
        return None
    outputs = [_output(field, columns, {}, {}) for field in request.projection.fields]
    if not all(isinstance(source, str) for source, _, _ in outputs):
        return None
    return json.dumps([(source, name, json.dumps(metadata)) for source, name, metadata in outputs])


def partitioned_files(
    spark: SparkSession,
    request: ScanRequest,
    needed: Schema,
    groups: Sequence[ScanFileGroup],
    keys: Sequence[tuple[StructField, FileValues]],
) -> Any:
    """Create a `PartitionedFiles` object: a scan of Spark's connector interface over file groups, in which each split has files with the same partition keys.

    Args:
        spark: A classic session whose executors have Icefloe's classes.
        request: The projection, the filter and the schemas of the scan.
        needed: The part of the table's schema that the projection and the filter use.
        groups: One or more groups of files that Spark's own scan reads.
        keys: The partition keys. Each is a column and a function. The name of the column must not be that of a table's column. The function receives the files
            of a group, and returns an Arrow array with the key's value for each file, in the Arrow type that Spark uses for the column.

    Returns:
        The Java object. It also has Spark's logical plan of its rows in the columns of the projection.

    Raises:
        EngineError: The session has no JVM, or the Java classes do not work on this version of Spark.
    """
    united_deletes = union_deletes([group.parts for group in groups], [group.equality for group in groups])
    if united_deletes is not None:
        groups = [replace(group, equality=equality) for group, equality in zip(groups, united_deletes, strict=True)]
    reads_deleted = any(_reads_deleted(request, group) for group in groups)
    relations = java_class(spark, "java.util.ArrayList")()
    unread = {NUMBER_COLUMN, *(field.name for field, _ in keys)}
    for group in groups:
        columns = _columns(request, needed, group)
        scan = _files_and_columns(request, group, columns)
        added = list(keys)
        if reads_deleted and group.deleted is None:
            added.append((StructField(DELETED_ROWS_COLUMN, BooleanType(), False), _no_row_is_deleted))
        for field, values in added:
            scan["files"] = scan["files"].append_column(field.name, values(group.files))
        scan["constants"] = SparkStruct([*scan["constants"].fields, *(field for field, _ in added)])
        hidden = [*scan["data"].fields[len(columns.data) :], *scan["constants"].fields[len(columns.constants) :]]
        size = _size(request, group, columns, (field for field in hidden if field.name not in unread))
        relations.add(native_relation(spark, **{**scan, "size": size}))
    returned = [name for name in (*scan["data"].names, *scan["constants"].names) if name not in unread]
    files = new_object(spark, "PartitionedFiles", relations, [field.name for field, _ in keys], returned)
    relation = files.relation()
    names = None if united_deletes is not None else _plain_names(request, columns)
    if names is not None:
        files.read(native_scans(spark).columns(relation, names))
        return files
    rows = DataFrame(native_scans(spark).frame(spark._jsparkSession, relation), spark)
    rows = _project(spark, request, rows, columns, groups[-1].equality, reads_deleted=reads_deleted)
    files.read(rows._jdf.queryExecution().optimizedPlan())
    return files


def _no_row_is_deleted(files: Any) -> Any:
    return pa.repeat(pa.scalar(False), files.num_rows)


def _columns(request: ScanRequest, needed: Schema, group: ScanFileGroup) -> _Columns:
    """Determine which columns the native scan of a file group reads from the files, and which are constant or always null."""
    equality = group.equality
    dropped = () if equality is None else tuple(key for key in equality.key_columns if key.field_id not in request.schema)
    if equality is not None:
        needed = _with_keys(needed, request.schema, equality)
    # A column of unknown type is null, even if a file contains values. Spec: Parquet (Appendix A).
    unknown = frozenset(field.field_id for field in needed.fields if isinstance(field.field_type, UnknownType))
    constant = group.constant_ids | group.missing
    names = names_for_the_reader(needed, request.schemas)
    return _Columns(
        data=(*(field for field in needed.fields if field.field_id not in constant | unknown), *map(_as_dropped, dropped)),
        constants=tuple(field for field in needed.fields if field.field_id in constant),
        unknown=unknown,
        names=replace(names, columns={**names.columns, **{dropped_key(key): dropped_key(key) for key in dropped}}),
        metadata=_metadata_columns(request),
    )


def _with_keys(needed: Schema, schema: Schema, equality: EqualityDeletes) -> Schema:
    """Return `needed` with the key columns of the equality deletes added, except key columns that were dropped from the table."""
    return Schema(*fields_to_read(schema, needed, {key.field_id for key in equality.key_columns}))


def _as_dropped(key: NestedField) -> NestedField:
    return NestedField(key.field_id, dropped_key(key), key.field_type)


def requested_metadata_ids(request: ScanRequest) -> frozenset[int]:
    """Return the ids of the metadata columns in a scan's projection or filter."""
    ids = {field.field_id for field in request.projection.fields} | {test.field.field_id for test in predicates(request.row_filter)}
    return frozenset(filter(is_reserved, ids))


def _metadata_columns(request: ScanRequest) -> MetadataColumns | None:
    """Return the metadata columns of a scan; None if it reads no metadata columns."""
    field_ids = requested_metadata_ids(request)
    if not field_ids:
        return None
    partition = next((field.field_type for field in request.projection.fields if field.field_id == PARTITION_FIELD_ID), None)
    return MetadataColumns(field_ids, partition if isinstance(partition, StructType) else StructType())


def _files_and_columns(request: ScanRequest, group: ScanFileGroup, columns: _Columns) -> dict[str, Any]:
    """Return the keyword arguments of `native_relation` for a file group. They include the columns that are only for the scan itself, such as positions."""
    files = group.files
    arrays = {PATH_COLUMN: hadoop_paths(files["file_path"]), SIZE_COLUMN: files["file_size_in_bytes"].cast(pa.int64())}
    for number, field in enumerate(columns.constants):
        if field.field_id in group.missing:
            arrays[f"constant {number}"] = _defaults(files.num_rows, field)
        else:
            arrays[f"constant {number}"] = constant_values(files, field, request.specs)
    constants = list(_with_reader_names(schema_to_struct(Schema(*columns.constants), field_ids=False), columns.reader_names).fields)
    metadata = columns.metadata
    if metadata is not None:
        struct, values = metadata.constants(files)
        constants += struct.fields
        arrays |= values
    if group.deleted is not None:
        constants.append(StructField(NUMBER_COLUMN, IntegerType(), False))
        arrays[NUMBER_COLUMN] = pa.array(range(files.num_rows), pa.int32())
    if group.equality is not None and group.equality.needs_groups:
        constants.append(StructField(GROUP_COLUMN, IntegerType(), False))
        arrays[GROUP_COLUMN] = pa.array(group.equality.groups, pa.int32())
    stored = () if metadata is None else metadata.stored
    names = replace(columns.names, columns={**columns.reader_names, **{field.name: field.name for field in stored}})
    data = names.of_struct((*columns.data, *stored))
    if metadata is not None and metadata.field_ids & OF_POSITIONS:
        data = data.add(POSITION_COLUMN, LongType())
    if _reads_deleted(request, group):
        data = data.add(DELETED_ROWS_COLUMN, BooleanType())
    added = (*data.fields[len(columns.data) :], *constants[len(columns.constants) :])
    return {
        "files": pa.table(arrays),
        "constants": SparkStruct(constants),
        "data": data,
        "name": _shown_name(request),
        "size": _size(request, group, columns, added),
        "deleted": group.deleted,
        "accelerator_obstacle": group.accelerator_obstacle,
        "metrics": group.metrics,
    }


def _shown_name(request: ScanRequest) -> str:
    """Return the name of the scan in EXPLAIN: that of the table, and notes on its planning."""
    notes = ["planned by the server"] if request.plan.is_planned_by_server else []
    for skipped, clause in ((request.plan.skipped_by_order, "ORDER BY and LIMIT"), (request.plan.skipped_by_sample, "TABLESAMPLE")):
        if skipped.files:
            notes.append(f"{skipped.files} files skipped by {clause}")
    return f"{request.table_name} ({', '.join(notes)})" if notes else request.table_name


def _reads_deleted(request: ScanRequest, group: ScanFileGroup) -> bool:
    return group.deleted is not None and DELETED.field_id in request.projection


def _size(request: ScanRequest, group: ScanFileGroup, columns: _Columns, hidden: Iterable[StructField]) -> int:
    """Estimate the bytes of a file group's columns, and of the `hidden` columns, which are only for the scan itself.

    The latter are included, because Spark's optimizer subtracts their share when it removes them.
    """
    read = (*columns.data, *columns.constants)
    count = 0 if group.deleted is None else group.deleted.count
    size = stored_bytes(group.files, read, request.schema, deleted=count, kept=group.kept)
    width = sum(_WIDTHS_OF_HIDDEN_COLUMNS.get(type(field.dataType), _WIDTH_OF_OTHERS) for field in hidden)
    return size * (row_width(read) + width) // row_width(read)


def stored_bytes(files: Any, columns: Sequence[NestedField], schema: Schema, *, deleted: int, kept: float = 1.0) -> int:
    """Estimate the bytes that some columns of the live rows have in data files. Spark uses the estimate to decide whether a join can broadcast the rows.

    The bytes of the files are divided among the columns by the sizes of their types, as Spark does for Parquet files, so that queries are planned as if they
    read the files directly.

    Args:
        files: The files, with the columns of `ScanPlan.files`.
        columns: The columns to read.
        schema: All columns of the table.
        deleted: The number of deleted rows in the files.
        kept: The estimated share of the rows that Spark's filters keep.
    """
    total, rows = (pc.sum(files[name]).as_py() or 0 for name in ("file_size_in_bytes", "record_count"))
    live = total * max(0, rows - deleted) * row_width(columns) // (max(1, rows) * row_width(schema.fields))
    return max(1, int(live * kept))


def _with_reader_names(struct: SparkStruct, reader_names: Mapping[str, str]) -> SparkStruct:
    for field in struct.fields:
        field.name = reader_names[field.name]
    struct.names = [field.name for field in struct.fields]
    return struct


def _output(
    field: NestedField, columns: _Columns, computed: Mapping[int, Column], types: Mapping[str, DataType]
) -> tuple[str | Column, str, Mapping[str, str]]:
    """Return a projected column as `select_as` takes it: its name in the reader or an expression, its name in the table, and its comment as metadata."""
    column: str | Column
    if field.field_id in computed:
        column = computed[field.field_id]
    else:
        read_as = next(read for read in (*columns.data, *columns.constants) if read.field_id == field.field_id)
        name = columns.reader_names[read_as.name]
        column = (
            cut_struct(column_named(name), read_as.field_type, field.field_type, types.get(name))
            if _is_cut(read_as.field_type, field.field_type)
            else name
        )
    # Spark 4.0 treats empty metadata as missing and keeps the field id, which is then visible but not used.
    return column, field.name, {COMMENT_KEY: field.doc} if field.doc is not None else {}


def _is_cut(read_as: IcebergType, projected: IcebergType) -> bool:
    return read_as != projected and isinstance(projected, StructType)


def cut_struct(column: Column, read_as: IcebergType, projected: IcebergType, kind: DataType | None) -> Column:
    """Return an expression for a column without the struct fields that are not projected.

    Args:
        column: The column as it was read.
        read_as: The type with which it was read.
        projected: The type to return; for a struct, it may have fewer fields.
        kind: The Spark type of the column if the names of struct fields may differ only by case, otherwise None.
    """
    if not (_is_cut(read_as, projected) and isinstance(projected, StructType) and isinstance(read_as, StructType)):
        return column
    parts = []
    for field in projected.fields:
        part, part_type = field_inside(column, (field.name,), kind), kind[field.name].dataType if isinstance(kind, SparkStruct) else None
        parts.append(cut_struct(part, read_as.by_id[field.field_id].field_type, field.field_type, part_type).alias(field.name))
    return F.when(column.isNotNull(), F.struct(*parts))


def constant_values(files: Any, column: NestedField, specs: Mapping[int, PartitionSpec]) -> Any:
    """Return the value of an identity partition column for each file, as an Arrow array of the type that Spark needs."""
    constants = None
    for spec_id in pc.unique(files["spec_id"]).to_pylist():
        field = next(f for f in specs[spec_id].fields if f.source_id == column.field_id and isinstance(f.transform, IdentityTransform))
        values = files[partition_column(field.field_id)]
        constants = values if constants is None else pc.if_else(pc.equal(files["spec_id"], spec_id), values, constants)
    return as_constant(pa.nulls(0) if constants is None else constants, column.field_type)


def _defaults(count: int, column: NestedField) -> Any:
    """Return the initial default of a column `count` times, once for each file, as an Arrow array of the type that Spark needs."""
    kind = column.field_type
    values = [column.initial_default] * count
    return as_constant(physical_array(kind, values) if isinstance(kind, PrimitiveType) else pa.nulls(count), kind)


def native_relation(
    spark: SparkSession,
    files: Any,
    *,
    constants: SparkStruct,
    data: SparkStruct,
    name: str,
    size: int,
    deleted: DeletedRows | None = None,
    accelerator_obstacle: str | None = None,
    names: str | None = None,
    non_null: Sequence[str] = (),
    metrics: Sequence[ScanMetric] = (),
) -> Any:
    """Return Spark's logical plan of a scan of files, with the columns of `data` first, then the constants.

    Args:
        spark: A classic session.
        files: A `pyarrow.Table` with `path` (string, in Hadoop's form), `size` (int64, bytes) and a column for each constant, in the order of `constants`, with
            Spark's Arrow type for the type of the constant.
        constants: The columns with one value per file.
        data: The columns to read; a column with a field id is found by the id.
        name: The name in EXPLAIN.
        size: The bytes of all columns, estimated by `stored_bytes`.
        deleted: The deleted positions of each file. If set, `constants` has the column `NUMBER_COLUMN`. Deleted rows are returned only if `data` has the column
            `DELETED_ROWS_COLUMN`.
        accelerator_obstacle: Why no accelerator may read the files; None if one may.
        names: Columns to select, as a JSON list: each item is a list of the column's name, its new name and its metadata (JSON as text). None for all columns
            unchanged.
        non_null: Columns without nulls that the query filters by IS NOT NULL. The plan then filters them too, so that Spark generates shorter code after it.
        metrics: What Spark's SQL tab shows for the scan.

    Raises:
        EngineError: The session has no JVM, or the Java classes do not work on this version of Spark.
    """
    try:
        return native_scans(spark).relation(
            spark._jsparkSession,
            stream_of(files),
            constants.json(),
            data.json(),
            name,
            size,
            _format(spark, name, data, deleted, accelerator_obstacle),
            names,
            list(non_null),
            json.dumps(metrics),
        )
    except (Py4JError, TypeError) as error:
        reason = java_message(error) if isinstance(error, Py4JError) else str(error)
        raise EngineError(f"Spark {spark.version} could not build the scan over the planned files of {name}: {reason}") from error


def keep_in_jvm(spark: SparkSession, plan: Any, size: int) -> None:
    """Tag a plan so that the JVM caches it for later statements that read the same state of a table in the same way. `size` is its size in bytes."""
    native_scans(spark).keep(plan, size)


def optimized_plan(rows: DataFrame) -> Any:
    """Return Spark's optimized logical plan of the rows of a scan. Variants are whole; `bridge/java/VariantExtractions.java` pushes down what is extracted."""
    return native_scans(rows.sparkSession).optimized(rows._jdf)


def native_rows(spark: SparkSession, files: Any, **arguments: Any) -> DataFrame:
    """Return the rows of `native_relation` as a DataFrame. The arguments and errors are the same."""
    return DataFrame(native_scans(spark).frame(spark._jsparkSession, native_relation(spark, files, **arguments)), spark)


def native_scans(spark: SparkSession) -> Any:
    """Return the Java object `NativeScan` of the Spark application, which creates native scans. Raises the error of `new_object`."""
    context = spark.sparkContext
    if context not in _NATIVE_SCANS:
        options = java_class(spark, "java.util.HashMap")()
        for key, value in READER_OPTIONS.items():
            options.put(key, value)
        _NATIVE_SCANS[context] = new_object(spark, "NativeScan", options)
    return _NATIVE_SCANS[context]


def _format(spark: SparkSession, name: str, data: SparkStruct, deleted: DeletedRows | None, accelerator_obstacle: str | None) -> Any:
    """Return the Java object of a Parquet format that reads unsigned integers as the table's types, fills the column of positions, and leaves deleted rows out.

    Return None for Spark's own reader if no rows are deleted and executors do not have Icefloe's classes; then `read_strategy.py` has checked that no file has
    unsigned integers.
    """
    if deleted is None and not executors_have_classes(spark):
        return None
    if deleted is None and POSITION_COLUMN not in data.names:
        return native_scans(spark).signed(name, accelerator_obstacle)
    positions = None if deleted is None else deleted.positions(spark)
    returns_deleted = DELETED_ROWS_COLUMN in data.names
    return native_scans(spark).counting(name, POSITION_COLUMN, DELETED_ROWS_COLUMN, NUMBER_COLUMN, positions, returns_deleted)


def select_as(rows: DataFrame, columns: Iterable[tuple[str | Column, str, Mapping[str, str]]]) -> DataFrame:
    """Select columns of a DataFrame. Each is a name in the DataFrame or an expression, followed by the new name and the new metadata."""
    spark, outputs = rows.sparkSession, list(columns)
    names = [(quote_name(source) if isinstance(source, str) else None, name, json.dumps(metadata)) for source, name, metadata in outputs]
    expressions = java_class(spark, "java.util.ArrayList")()
    for source, _, _ in outputs:
        if not isinstance(source, str):
            expressions.add(source._jc)
    return DataFrame(new_object(spark, "NamedColumns", json.dumps(names), expressions).of(rows._jdf), spark)


def stream_of(files: Any) -> bytes:
    """Return a `pyarrow.Table` as a compressed Arrow stream, so that a single call passes any number of files to the JVM."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema) as writer:
        writer.write_table(files)
    return zlib.compress(sink.getvalue(), _DEFLATE_LEVEL)


def hadoop_paths(locations: Any) -> Any:
    """Convert an Arrow array of locations to paths for Hadoop: local ones get the scheme `file:`, so that `fs.defaultFS` does not redirect them."""
    rooted = pc.starts_with(locations, "/")
    if pc.all(pc.or_(rooted, pc.match_substring_regex(locations, "^[A-Za-z][A-Za-z0-9+.-]*:/"))).as_py() is not False:
        return pc.if_else(rooted, pc.binary_join_element_wise("file:", locations, ""), locations)
    return pa.array([f"file:{local_path(text)}" if scheme_of(text) == "file" else text for text in locations.to_pylist()], pa.string())


def schemes_without_file_system(spark: SparkSession, schemes: Iterable[str]) -> list[str]:
    """Return the schemes for which this Spark has no Hadoop file system, so that Spark's own scan cannot read them."""
    return list(native_scans(spark).withoutFileSystem(spark._jsparkSession, list(schemes)))
