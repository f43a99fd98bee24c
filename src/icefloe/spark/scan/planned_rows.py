"""Rows of a planned scan as a Spark DataFrame: the union of its file groups, each read by its own strategy.

`read_strategy.py` forms the groups; `native_scan.py` reads with Spark's own Parquet scan, `python_scan.py` reads what Spark's reader cannot.
Spec: Column Projection; Scan Planning.
"""

import logging
from functools import partial, reduce

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.projected_fields import fields_to_read
from icefloe.errors import in_one_line
from icefloe.io.file_io_by_scheme import check_locations
from icefloe.kernel.schema.metadata_columns import is_reserved
from icefloe.kernel.schema.schema import Schema, walk
from icefloe.kernel.types import UnknownType
from icefloe.spark.scan.metadata_column_values import OF_POSITIONS, position_name_conflict, requested_metadata_ids
from icefloe.spark.scan.native_scan import native_scan, schemes_without_file_system
from icefloe.spark.scan.python_scan import TaskReader, python_rows
from icefloe.spark.scan.read_strategy import FileGroup, field_ids, file_groups
from icefloe.spark.scan.version_probe import probe_scans
from icefloe.spark.types.spark_types import NOT_NATIVE, why_not_opened
from icefloe.table.engine import ScanRequest

LOG = logging.getLogger(__name__)


def read(spark: SparkSession, request: ScanRequest) -> DataFrame:
    """Return the rows of a scan as a DataFrame.

    The frame is lazy: no row is read before an action. Position delete files are read now.

    Args:
        spark: A classic session.
        request: The planned files, the columns and the filter.

    Raises:
        NoSuchFileError, DataFileFormatError, PuffinFormatError: A delete file is missing or damaged.
        UnsupportedTypeError: This Spark has no type for a column.
        LocationNotAllowedError: The catalog's configuration does not allow a file's location.
        EngineError: The session has no JVM at hand; or its Spark is too old, or newer than the proven versions and fails the version probe.
    """
    probe_scans(spark)
    if request.plan.files.num_rows:
        check_locations(request.io, request.plan.files["file_path"])  # Hadoop connects to any host
    table_columns = Schema(*(field for field in request.projection.fields if not is_reserved(field.field_id)))
    needed = Schema(*fields_to_read(request.schema, table_columns, request.row_filter))
    deletes = DeleteLoader(request.io, schemas=request.schemas, name_mapping=request.name_mapping)
    reason = _why_not_native(spark, request, needed)
    if reason:
        groups = [FileGroup(parts=request.plan.parts, reason=reason)]
    else:
        read_ids = partial(field_ids, spark, request.io, table_name=request.table_name)
        groups = list(file_groups(request, needed, deletes, read_ids)) or [FileGroup(parts=())]
    rows = reduce(DataFrame.unionAll, (_rows(spark, request, needed, group, deletes) for group in groups))
    return rows if request.limit is None else rows.limit(request.limit)


def _rows(spark: SparkSession, request: ScanRequest, needed: Schema, group: FileGroup, deletes: DeleteLoader) -> DataFrame:
    if not group.reason:
        return native_scan(spark, request, needed, group)
    tasks = [task for part in group.parts for task in part.tasks()]
    LOG.warning(
        "%d files of %s are read through Python, which is slower than Spark's own Parquet scan: %s",
        len(tasks),
        in_one_line(request.table_name),
        in_one_line(group.reason),
    )
    reader = TaskReader(request.io, request.schema, request.projection, dict(request.specs), request.name_mapping, deletes)
    return python_rows(spark, tasks, reader)


def _why_not_native(spark: SparkSession, request: ScanRequest, needed: Schema) -> str:
    """Return why Spark's own scan can read no file of the plan; empty where it can."""
    files = request.plan.files
    if not files.num_rows:
        return ""
    read = [field for field in needed.fields if not isinstance(field.field_type, UnknownType)]
    names = [f"{'.'.join(path)} ({field.field_type})" for path, field in walk(read) if isinstance(field.field_type, NOT_NATIVE)]
    if names:
        return f"it cannot read {', '.join(names)}"
    if reason := why_not_opened(spark, (*request.schemas, request.schema)):
        return reason
    if requested_metadata_ids(request) & OF_POSITIONS and (reason := position_name_conflict(request.schemas)):
        return reason
    matches = pc.extract_regex(files["file_path"], r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
    schemes = {text.lower() for text in pc.unique(pc.struct_field(matches, "scheme")).to_pylist() if text is not None} - {"file"}
    missing = schemes_without_file_system(spark, sorted(schemes)) if schemes else []
    return f"it has no file system for {', '.join(missing)}" if missing else ""
