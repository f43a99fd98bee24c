"""A planned scan as a Spark DataFrame: its files divided by how they are read, and the rows of all put together.

Spark's own scan is `native_scan.py`; `python_scan.py` is for what Spark's reader cannot read; `read_strategy.py` decides.
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
from icefloe.spark.scan.file_field_ids import field_ids
from icefloe.spark.scan.metadata_column_values import OF_POSITIONS, asked_metadata, positions_taken
from icefloe.spark.scan.native_scan import native_scan
from icefloe.spark.scan.python_scan import TaskReader, portable_rows
from icefloe.spark.scan.read_strategy import FileGroup, file_groups
from icefloe.spark.scan.spark_parquet_scan import schemes_without_file_system
from icefloe.spark.scan.version_probe import try_scan
from icefloe.spark.types.spark_types import NOT_NATIVE, why_not_opened
from icefloe.table.engine import ScanRequest

LOG = logging.getLogger(__name__)


def read(spark: SparkSession, request: ScanRequest) -> DataFrame:
    """The rows of a scan, lazily: no row is read before an action. Deleted positions are read now.

    Raises:
        NoSuchFileError, DataFileFormatError, PuffinFormatError: a delete file is gone, or not sound.
        UnsupportedTypeError: a column's type is not one this Spark has.
        LocationNotAllowedError: a file's location is not allowed by the catalog's configuration.
        EngineError: the session is not a classic one, or its Spark is too old, or newer than those that are proven and reads wrong.
    """
    try_scan(spark)
    if request.plan.files.num_rows:
        check_locations(request.io, request.plan.files["file_path"])  # Hadoop asks nobody before it connects to a host
    own = Schema(*(field for field in request.projection.fields if not is_reserved(field.field_id)))
    needed = Schema(*fields_to_read(request.schema, own, request.row_filter))
    deletes = DeleteLoader(request.io, schemas=request.schemas, name_mapping=request.name_mapping)
    reason = _why_not_native(spark, request, needed)
    if reason:
        found = [FileGroup(parts=request.plan.parts, reason=reason)]
    else:
        ask_ids = partial(field_ids, spark, request.io, table_name=request.table_name)
        found = list(file_groups(request, needed, deletes, ask_ids)) or [FileGroup(parts=())]
    rows = reduce(DataFrame.unionAll, (_rows(spark, request, needed, share, deletes) for share in found))
    return rows if request.limit is None else rows.limit(request.limit)


def _rows(spark: SparkSession, request: ScanRequest, needed: Schema, share: FileGroup, deletes: DeleteLoader) -> DataFrame:
    if not share.reason:
        return native_scan(spark, request, needed, share)
    tasks = [task for part in share.parts for task in part.tasks()]
    LOG.warning(
        "%d files of %s are read through Python, slower than Spark's own Parquet scan: %s",
        len(tasks),
        in_one_line(request.table_name),
        in_one_line(share.reason),
    )
    reader = TaskReader(request.io, request.schema, request.projection, dict(request.specs), request.name_mapping, deletes)
    return portable_rows(spark, tasks, reader)


def _why_not_native(spark: SparkSession, request: ScanRequest, needed: Schema) -> str:
    """Why no file of the plan can be read by Spark's own scan; empty where one may be."""
    files = request.plan.files
    if not files.num_rows:
        return ""
    read = [field for field in needed.fields if not isinstance(field.field_type, UnknownType)]
    names = [f"{'.'.join(path)} ({field.field_type})" for path, field in walk(read) if isinstance(field.field_type, NOT_NATIVE)]
    if names:
        return f"it cannot read {', '.join(names)}"
    if reason := why_not_opened(spark, (*request.schemas, request.schema)):
        return reason
    if asked_metadata(request) & OF_POSITIONS and (reason := positions_taken(request.schemas)):
        return reason
    found = pc.extract_regex(files["file_path"], r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
    schemes = {text.lower() for text in pc.unique(pc.struct_field(found, "scheme")).to_pylist() if text is not None} - {"file"}
    missing = schemes_without_file_system(spark, sorted(schemes)) if schemes else []
    return f"it has no file system for {', '.join(missing)}" if missing else ""
