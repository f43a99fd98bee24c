"""A planned scan by Spark's public Parquet reader: the planned files by name, columns by field id, deleted rows left out by an anti join on file and row index.

For sessions without a JVM at hand, and only where it gives exactly the table's rows; `planned_rows` says why not.
Spec: Column Projection; Row-level Deletes.
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.projected_fields import fields_to_read
from icefloe.io.file_io_by_scheme import check_locations
from icefloe.io.locations import scheme_of
from icefloe.kernel.expressions.bind import predicates
from icefloe.kernel.expressions.predicate import AlwaysTrue
from icefloe.kernel.puffin.deletion_vector import DeletionVector
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.metadata_columns import is_reserved
from icefloe.kernel.schema.schema import Schema, walk
from icefloe.kernel.types import IcebergType, NestedField, StructType
from icefloe.spark.scan.expression_to_column import filter_to_column, literal
from icefloe.spark.scan.native_scan import READER_OPTIONS, hadoop_paths, names_for_the_reader
from icefloe.spark.scan.read_strategy import FieldIds, FileGroup, FooterReader, file_groups
from icefloe.spark.types.spark_types import COMMENT_KEY, NOT_NATIVE, column_named, schema_to_struct, why_not_opened
from icefloe.table.engine import ScanRequest

FIELD_IDS_CONF = "spark.sql.parquet.fieldId.read.enabled"
# Files of one plan: their names travel in the query, and Spark looks each one up before it begins.
MOST_FILES = 10_000
# Deleted rows of one plan, which travel in the query as 8 bytes each.
MOST_DELETED = 4_000_000
# Rows deleted in files that Spark joins without a shuffle, at some 100 bytes each.
MOST_BROADCAST = 500_000
FOOTER_THREADS = 16
_PATH, _POSITION = "icefloe path", "icefloe position"
_PATTERN_SIGNS = re.compile(r"([\\*?\[\]{}])")
# What Java leaves as it is in the path of a URI, besides letters, digits and what is not ASCII.
_PLAIN = "/-_.!~*'();:@&=+$,"


class NotByParquet(Exception):  # noqa: N818 it is no error, but an answer
    """Why Spark's public reader would not give the table's rows."""


def planned_rows(spark: SparkSession, request: ScanRequest) -> DataFrame:
    """The rows of a scan. Analysed before it is returned, so that Spark has looked at every file.

    The session's `spark.sql.parquet.fieldId.read.enabled` is turned on, and must stay so until the rows are read.

    Raises:
        NotByParquet: another reader must be taken; its text says why.
        NoSuchFileError, DataFileFormatError, PuffinFormatError: a delete file is gone, or not sound.
        LocationNotAllowedError: a file's location is not allowed by the catalog's configuration.
    """
    needed = _needed(request)
    if request.plan.files.num_rows:
        check_locations(request.io, request.plan.files["file_path"])
    if reason := why_not_opened(spark, (*request.schemas, request.schema)):
        raise NotByParquet(reason)
    deletes = DeleteLoader(request.io, schemas=request.schemas, name_mapping=request.name_mapping)
    found = list(file_groups(request, needed, deletes, lambda tasks: _ids(request, tasks)))
    for share in found:
        _check(request, share)
    spark.conf.set(FIELD_IDS_CONF, "true")
    called = names_for_the_reader(needed, request.schemas)
    parts = [_rows(spark, request, needed, share, called) for share in found] or [_no_rows(spark, request)]
    rows = reduce(DataFrame.unionAll, parts)
    rows = rows if request.limit is None else rows.limit(request.limit)
    try:
        rows.schema  # noqa: B018 asks the server
    except PySparkException as error:
        raise NotByParquet(f"Spark's server cannot read the files itself: {str(error).splitlines()[0]}") from error
    return rows


def _needed(request: ScanRequest) -> Schema:
    """The columns to read. Raises `NotByParquet` where Spark's reader has no type for one, or cannot make it."""
    if request.plan.files.num_rows > MOST_FILES:
        raise NotByParquet(f"the plan has over {MOST_FILES:,} files")
    asked = [*request.projection.fields, *(test.field for test in predicates(request.row_filter))]
    metadata = sorted({field.name for field in asked if is_reserved(field.field_id)})
    if metadata:
        raise NotByParquet(f"the metadata columns {', '.join(metadata)} are asked for")
    fields = fields_to_read(request.schema, request.projection, request.row_filter)
    names = [f"{'.'.join(path)} ({field.field_type})" for path, field in walk(fields) if isinstance(field.field_type, NOT_NATIVE)]
    if names:
        raise NotByParquet(f"Spark's Parquet reader cannot read {', '.join(names)}")
    if not fields:
        raise NotByParquet("no column is asked for")
    return Schema(*fields)


def _check(request: ScanRequest, share: FileGroup) -> None:
    tasks = [task for part in share.parts for task in part.tasks()]
    if share.reason:
        raise NotByParquet(share.reason)
    if share.equality is not None:
        raise NotByParquet("rows are deleted by equality")
    # Spark leaves such files out without a word.
    hidden = [task.file.file_path for task in tasks if task.file.file_path.rpartition("/")[2].startswith(("_", "."))]
    if hidden:
        raise NotByParquet(f"Spark overlooks a file of the name {hidden[0].rpartition('/')[2]}")
    changed = [task.file.file_path for task in tasks if not is_told_alike(task.file.file_path)]
    if changed:
        raise NotByParquet(f"Spark would know {changed[0]} by another name")
    if share.constant_ids:
        # A partition column that the file lacks has the partition's value, which the public reader has no way to add.
        for task, ids in zip(tasks, _ids(request, tasks), strict=True):
            if ids is None or not share.constant_ids <= ids:
                raise NotByParquet(f"{task.file.file_path} lacks a column that the table is partitioned by")
    if share.vectors is not None and sum(vector.cardinality for vector in share.vectors if vector is not None) > MOST_DELETED:
        raise NotByParquet(f"over {MOST_DELETED:,} rows are deleted")


def _ids(request: ScanRequest, tasks: Sequence[FileScanTask]) -> list[FieldIds]:
    with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="icefloe-footers") as pool:
        return list(pool.map(FooterReader(request.io).ids_in, tasks))


def _rows(spark: SparkSession, request: ScanRequest, needed: Schema, share: FileGroup, called: Mapping[str, str]) -> DataFrame:
    locations = share.files["file_path"].to_pylist()
    stored = [field for field in needed.fields if field.field_id not in share.missing]
    struct = schema_to_struct(Schema(*stored))
    for field in struct.fields:
        field.name, field.nullable = called[field.name], True
    struct.names = [field.name for field in struct.fields]
    reader = spark.read.options(**READER_OPTIONS).option("recursiveFileLookup", "true").schema(struct)
    rows = reader.parquet(*(_PATTERN_SIGNS.sub(r"\\\1", path) for path in hadoop_paths(pa.array(locations)).to_pylist()))
    if share.vectors is not None:
        rows = rows.withColumns({_PATH: F.col("_metadata.file_path"), _POSITION: F.col("_metadata.row_index")})
        rows = rows.join(_deleted(spark, locations, share.vectors), [_PATH, _POSITION], "left_anti")
    made = {field.field_id: _default(field) for field in needed.fields if field.field_id in share.missing}
    if not isinstance(request.row_filter, AlwaysTrue):
        named = {field.name: made[field.field_id] for field in needed.fields if field.field_id in made}
        rows = rows.where(filter_to_column(request.row_filter, {**called, **named}))
    found = {field.field_id: field for field in needed.fields}
    return rows.select(*(_output(field, found[field.field_id], called, made) for field in request.projection.fields))


def _default(field: NestedField) -> Column:
    return literal(field.field_type, field.initial_default)  # type: ignore[arg-type]  # `shares` lets primitive types pass alone


def _deleted(spark: SparkSession, locations: Sequence[str], vectors: Sequence[DeletionVector | None]) -> DataFrame:
    """One row for each deleted row: its file, as Spark names it in `_metadata.file_path`, and its place there."""
    found = [(path, vector) for path, vector in zip(locations, vectors, strict=True) if vector is not None and vector.cardinality]
    positions = pa.array([list(vector.bitmap) for _, vector in found], pa.list_(pa.int64()))
    packed: Any = pa.table({_PATH: pa.array([spark_path(path) for path, _ in found], pa.string()), _POSITION: positions})
    rows = spark.createDataFrame(packed).select(column_named(_PATH), F.explode(column_named(_POSITION)).alias(_POSITION))
    return F.broadcast(rows) if sum(vector.cardinality for _, vector in found) <= MOST_BROADCAST else rows


def is_told_alike(location: str) -> bool:
    """Whether Hadoop leaves a location as it is: it shortens paths with `//`, `.` and `..`, and adds a host where a URL has none."""
    whole = hadoop_paths(pa.array([location])).to_pylist()[0]
    _, _, rest = whole.partition(":")
    if scheme_of(location) != "file":
        host, _, path = rest.removeprefix("//").partition("/")
        return rest.startswith("//") and bool(host) and not {"", ".", ".."} & set(path.split("/"))
    return not {"", ".", ".."} & set(rest.lstrip("/").split("/"))


def spark_path(location: str) -> str:
    """A location as `_metadata.file_path` tells it: a URI, whose path is written as Java writes it."""
    whole = hadoop_paths(pa.array([location])).to_pylist()[0]
    scheme, _, rest = whole.partition(":")
    if scheme_of(location) == "file":
        return f"file:{_quoted('/' + rest.lstrip('/'))}"
    authority, slash, path = rest.lstrip("/").partition("/")
    return f"{scheme}://{authority}{slash}{_quoted(path)}"


def _quoted(path: str) -> str:
    return re.sub(r"[\x00-\x7f]+", lambda found: quote(found.group(), safe=_PLAIN), path)


def _no_rows(spark: SparkSession, request: ScanRequest) -> DataFrame:
    empty: list[tuple[Any, ...]] = []
    return spark.createDataFrame(empty, schema_to_struct(request.projection, field_ids=False))


def _output(wanted: NestedField, found: NestedField, called: Mapping[str, str], made: Mapping[int, Column]) -> Column:
    """The column as the table names it, cut to the asked part of a struct, without the metadata that steered the reader."""
    column = made[wanted.field_id] if wanted.field_id in made else column_named(called[found.name])
    cut = _cut(column, found.field_type, wanted.field_type)
    return cut.alias(wanted.name, metadata={COMMENT_KEY: wanted.doc} if wanted.doc is not None else {})


def _cut(column: Column, found: IcebergType, wanted: IcebergType) -> Column:
    if found == wanted or not isinstance(wanted, StructType) or not isinstance(found, StructType):
        return column
    parts = [_cut(column.getField(f.name), found.by_id[f.field_id].field_type, f.field_type).alias(f.name) for f in wanted.fields]
    return F.when(column.isNotNull(), F.struct(*parts))
