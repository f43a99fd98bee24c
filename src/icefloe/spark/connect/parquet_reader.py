"""A planned scan by Spark's public Parquet reader: files by path, columns by field id, and deleted rows removed by an anti join on file and row index.

For sessions without a JVM. It is used only if it returns exactly the table's rows; otherwise `read_by_parquet` raises an error with the reason.
Spec: Column Projection; Row-level Deletes.
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial, reduce
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import DataType

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.io.file_io_by_scheme import check_locations, has_vended_access
from icefloe.io.locations import scheme_of
from icefloe.operations.engine import ScanRequest
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.bridge.accelerator_plugins import ACCELERATOR_PLUGINS, EXTENSIONS_CONF, PLUGINS_CONF
from icefloe.spark.scan.filter_to_spark import filter_to_column, literal
from icefloe.spark.scan.footer_field_ids import StoredFields, fields_in
from icefloe.spark.scan.native_scan import READER_OPTIONS, ScanFileGroup, cut_struct, hadoop_paths
from icefloe.spark.scan.read_strategy import VENDED_ACCESS, file_groups, loses_structs
from icefloe.spark.scan.reader_names import ReaderNames, names_for_the_reader
from icefloe.spark.types.spark_types import (
    COMMENT_KEY,
    NOT_NATIVE,
    column_named,
    differs_by_case,
    schema_to_struct,
    why_not_opened,
    why_not_stored_values,
)
from icefloe.spec.expressions.bind import filter_field_ids, predicates
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.puffin.deletion_vector import DeletionVector
from icefloe.spec.schema.metadata_columns import is_reserved
from icefloe.spec.schema.schema import Schema, fields_to_read, walk
from icefloe.spec.types import DoubleType, FloatType, NestedField, PrimitiveType, TimeType, UUIDType

FIELD_IDS_CONF = "spark.sql.parquet.fieldId.read.enabled"
# If Spark prunes nested fields, it drops the field ids, and would look columns up by name.
NESTED_PRUNING_CONF = "spark.sql.optimizer.nestedSchemaPruning.enabled"
# The maximum number of files in a plan: their paths are part of the query, and Spark looks each of them up first.
MOST_FILES = 10_000
# The maximum number of deleted rows in a plan; they are part of the query, with 8 bytes each.
MOST_DELETED = 4_000_000
# The maximum number of deleted rows that are broadcast for the join, at about 100 bytes each.
MOST_BROADCAST = 500_000
FOOTER_THREADS = 16
_PATH, _POSITION = "icefloe path", "icefloe position"
_PATTERN_SIGNS = re.compile(r"([\\*?\[\]{}])")
# Characters that Java does not escape in the path of a URI, besides letters, digits and non-ASCII characters.
_PLAIN = "/-_.!~*'();:@&=+$,"


class NotReadableByParquet(Exception):  # noqa: N818 a reason to use another reader, not an error
    """Raised if Spark's public reader would not return exactly the table's rows; the message has the reason."""


def read_by_parquet(spark: SparkSession, request: ScanRequest) -> DataFrame:
    """Return a DataFrame with the rows of a scan. It is already analyzed, so that Spark has looked up every file.

    The session's `spark.sql.parquet.fieldId.read.enabled` is turned on, and must stay on until the rows are read. For nested columns,
    `spark.sql.optimizer.nestedSchemaPruning.enabled` is turned off, and must stay off.

    Args:
        spark: The session.
        request: The planned files, the columns and the filter.

    Raises:
        NotReadableByParquet: Spark's public reader would not return exactly the rows, so that a different reader is needed.
        NoSuchFileError, DataFileFormatError, PuffinFormatError: A delete file is missing or damaged.
        LocationNotAllowedError: The catalog's configuration does not allow a file's location.
    """
    needed = _columns_to_read(request)
    if request.plan.files.num_rows:
        check_locations(request.io, request.plan.files["file_path"])
        if has_vended_access(request.io, request.plan.files["file_path"]):
            raise NotReadableByParquet(VENDED_ACCESS)
    if reason := why_not_opened(spark, (*request.schemas, request.schema)) or why_not_stored_values(spark, needed):
        raise NotReadableByParquet(reason)
    if reason := _why_not_accelerated(spark, needed):
        raise NotReadableByParquet(reason)
    deletes = cache(partial(DeleteLoader, request.io, schemas=request.schemas, name_mapping=request.name_mapping))
    read_fields = partial(_stored_fields, request)
    groups = list(file_groups(request, needed, deletes, read_fields, loses_structs=loses_structs(spark), takes_unsigned=True))
    for group in groups:
        _check(request, group)
    spark.conf.set(FIELD_IDS_CONF, "true")
    if not all(isinstance(field.field_type, PrimitiveType) for field in needed.fields):
        spark.conf.set(NESTED_PRUNING_CONF, "false")
    names = names_for_the_reader(needed, request.schemas)
    parts = [_rows(spark, request, needed, group, names) for group in groups] or [_no_rows(spark, request)]
    rows = reduce(DataFrame.unionAll, parts)
    rows = rows if request.limit is None else rows.limit(request.limit)
    try:
        rows.schema  # noqa: B018 sends the plan to the server
    except PySparkException as error:
        raise NotReadableByParquet(f"Spark's server cannot read the files itself: {str(error).splitlines()[0]}") from error
    return rows


def _columns_to_read(request: ScanRequest) -> Schema:
    """Return the columns to read. Raises `NotReadableByParquet` for columns that Spark's reader cannot read or compute, and for too many files."""
    if request.plan.files.num_rows > MOST_FILES:
        raise NotReadableByParquet(f"the plan has over {MOST_FILES:,} files")
    requested = [*request.projection.fields, *(test.field for test in predicates(request.row_filter))]
    metadata = sorted({field.name for field in requested if is_reserved(field.field_id)})
    if metadata:
        raise NotReadableByParquet(f"the scan reads the metadata columns {', '.join(metadata)}")
    fields = fields_to_read(request.schema, request.projection, filter_field_ids(request.row_filter))
    names = [
        f"{'.'.join(path)} ({field.field_type})"
        for path, field in walk(fields)
        if isinstance(field.field_type, (*NOT_NATIVE, UUIDType, TimeType))
    ]
    if names:
        raise NotReadableByParquet(f"Spark's Parquet reader cannot read {', '.join(names)}")
    if not fields:
        raise NotReadableByParquet("the scan reads no column")
    return Schema(*fields)


def _why_not_accelerated(spark: SparkSession, needed: Schema) -> str:
    """Return the reason for which an accelerator of the server would return other rows; empty if there is no accelerator, or its rows are right.

    `bridge/java/Accelerator.java` is for sessions with a JVM, whose scans it changes.
    """
    plugins, extensions = (spark.conf.get(name, "") or "" for name in (PLUGINS_CONF, EXTENSIONS_CONF))
    for accelerator in ACCELERATOR_PLUGINS:
        if not accelerator.is_in(plugins, extensions) or (spark.conf.get(accelerator.setting, "true") or "").lower() == "false":
            continue
        if not accelerator.finds_by_id:
            return f"{accelerator.name} reads the files on Spark's server, and finds columns by their names, and not by their ids"
        floats = [".".join(path) for path, field in walk(needed.fields) if isinstance(field.field_type, FloatType | DoubleType)]
        if floats:
            return f"{accelerator.name} reads the files on Spark's server, and leaves row groups with NaN out by filters on {', '.join(floats)}"
    return ""


def _check(request: ScanRequest, group: ScanFileGroup) -> None:
    tasks = [task for part in group.parts for task in part.tasks()]
    if group.reason:
        raise NotReadableByParquet(group.reason)
    if group.equality is not None:
        raise NotReadableByParquet("rows are deleted by equality")
    # Spark silently skips such files.
    hidden = [task.file.file_path for task in tasks if task.file.file_path.rpartition("/")[2].startswith(("_", "."))]
    if hidden:
        raise NotReadableByParquet(f"Spark skips files with names such as {hidden[0].rpartition('/')[2]}")
    changed = [task.file.file_path for task in tasks if not keeps_its_name(task.file.file_path)]
    if changed:
        raise NotReadableByParquet(f"Spark changes the location {changed[0]}")
    if group.constant_ids:
        # If the file lacks a partition column, the column has the partition's value, which the public reader cannot add.
        for task, (ids, *_) in zip(tasks, _stored_fields(request, tasks), strict=True):
            if ids is None or not group.constant_ids <= ids:
                raise NotReadableByParquet(f"{task.file.file_path} lacks a column that the table is partitioned by")
    if group.deleted is not None and group.deleted.count > MOST_DELETED:
        raise NotReadableByParquet(f"over {MOST_DELETED:,} rows are deleted")


def _stored_fields(request: ScanRequest, tasks: Sequence[FileScanTask]) -> list[StoredFields]:
    with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="icefloe-footers") as pool:
        return list(pool.map(partial(fields_in, request.io), tasks))


def _rows(spark: SparkSession, request: ScanRequest, needed: Schema, group: ScanFileGroup, names: ReaderNames) -> DataFrame:
    reader_names = names.columns
    locations = group.files["file_path"].to_pylist()
    stored = [field for field in needed.fields if field.field_id not in group.missing]
    struct = names.of_struct(stored)
    for field in struct.fields:
        field.nullable = True
    reader = spark.read.options(**READER_OPTIONS).option("recursiveFileLookup", "true").schema(struct)
    rows = reader.parquet(*(_PATTERN_SIGNS.sub(r"\\\1", path) for path in hadoop_paths(pa.array(locations)).to_pylist()))
    if group.deleted is not None:
        rows = rows.withColumns({_PATH: F.col("_metadata.file_path"), _POSITION: F.col("_metadata.row_index")})
        rows = rows.join(_deleted_rows(spark, locations, group.deleted.vectors), [_PATH, _POSITION], "left_anti")
    rows = names.restore(rows, stored)
    types = {field.name: field.dataType for field in rows.schema.fields} if differs_by_case(stored) else {}
    defaults = {field.field_id: _default(field) for field in needed.fields if field.field_id in group.missing}
    if not isinstance(request.row_filter, AlwaysTrue):
        named = {field.name: defaults[field.field_id] for field in needed.fields if field.field_id in defaults}
        rows = rows.where(filter_to_column(request.row_filter, {**reader_names, **named}, types))
    fields_read = {field.field_id: field for field in needed.fields}
    return rows.select(*(_output(field, fields_read[field.field_id], reader_names, defaults, types) for field in request.projection.fields))


def _default(field: NestedField) -> Column:
    return literal(field.field_type, field.initial_default)  # type: ignore[arg-type]  # `file_groups` admits only primitive types


def _deleted_rows(spark: SparkSession, locations: Sequence[str], vectors: Sequence[DeletionVector | None]) -> DataFrame:
    """Return a DataFrame with a row for each deleted row: the location of its file, as in Spark's `_metadata.file_path`, and its position."""
    deletes = [(path, vector) for path, vector in zip(locations, vectors, strict=True) if vector is not None and vector.cardinality]
    positions = pa.array([list(vector.bitmap) for _, vector in deletes], pa.list_(pa.int64()))
    packed: Any = pa.table({_PATH: pa.array([spark_path(path) for path, _ in deletes], pa.string()), _POSITION: positions})
    rows = spark.createDataFrame(packed).select(column_named(_PATH), F.explode(column_named(_POSITION)).alias(_POSITION))
    return F.broadcast(rows) if sum(vector.cardinality for _, vector in deletes) <= MOST_BROADCAST else rows


def keeps_its_name(location: str) -> bool:
    """Return whether Hadoop keeps a location unchanged. It shortens paths with `//`, `.` or `..`, and adds a host to URLs that have no host."""
    uri = hadoop_paths(pa.array([location])).to_pylist()[0]
    _, _, rest = uri.partition(":")
    if scheme_of(location) != "file":
        host, _, path = rest.removeprefix("//").partition("/")
        return rest.startswith("//") and bool(host) and not {"", ".", ".."} & set(path.split("/"))
    return not {"", ".", ".."} & set(rest.lstrip("/").split("/"))


def spark_path(location: str) -> str:
    """Convert a location to the value that Spark's `_metadata.file_path` has for the file: a URI whose path is escaped as Java does it."""
    uri = hadoop_paths(pa.array([location])).to_pylist()[0]
    scheme, _, rest = uri.partition(":")
    if scheme_of(location) == "file":
        return f"file:{_quote_path('/' + rest.lstrip('/'))}"
    authority, slash, path = rest.lstrip("/").partition("/")
    return f"{scheme}://{authority}{slash}{_quote_path(path)}"


def _quote_path(path: str) -> str:
    return re.sub(r"[\x00-\x7f]+", lambda ascii_part: quote(ascii_part.group(), safe=_PLAIN), path)


def _no_rows(spark: SparkSession, request: ScanRequest) -> DataFrame:
    empty: list[tuple[Any, ...]] = []
    return spark.createDataFrame(empty, schema_to_struct(request.projection, field_ids=False))


def _output(
    field: NestedField, read_as: NestedField, reader_names: Mapping[str, str], defaults: Mapping[int, Column], types: Mapping[str, DataType]
) -> Column:
    """Return a projected column under its name in the table: with only the projected fields of a struct, and without metadata that only the reader needs."""
    column = defaults[field.field_id] if field.field_id in defaults else column_named(reader_names[read_as.name])
    cut = cut_struct(column, read_as.field_type, field.field_type, types.get(reader_names.get(read_as.name, "")))
    return cut.alias(field.name, metadata={COMMENT_KEY: field.doc} if field.doc is not None else {})
