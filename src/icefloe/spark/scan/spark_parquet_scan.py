"""Spark's own vectorised Parquet scan over exactly the given files, with constants per file.

Which files, which columns and which constants is decided in `scan.py`. Spec: Column Projection.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from icefloe.errors import EngineError
from icefloe.io.locations import local_path, scheme_of
from icefloe.spark.bridge.gateway import gateway_of, java_class, java_words, jvm_of, scala_object
from icefloe.spark.bridge.java_compiler import executors_know, new_object
from icefloe.spark.scan.filter_columns import quoted
from icefloe.spark.scan.metadata_column_values import POSITION_COLUMN

# The columns that every table of files has first; one per constant follows.
PATH_COLUMN, SIZE_COLUMN = "path", "size"
# How the reader reads, whatever the session says. Iceberg's columns are found by id, and its calendar is Gregorian at all times.
READER_OPTIONS: Mapping[str, str] = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # Nothing is left out in silence: not a file that is gone or damaged, not the columns of a file without ids.
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_DATASOURCES = "org.apache.spark.sql.execution.datasources"
# 1 is the fastest level of deflate; paths shrink to a tenth.
_DEFLATE_LEVEL = 1
# Bytes that Spark reckons for a row beside its columns.
_ROW_OVERHEAD = 8


def native_rows(spark: SparkSession, files: Any, *, constants: StructType, data: StructType, name: str, rows: int) -> DataFrame:
    """The rows of the files, columns of `data` first, then the constants.

    `files` is a `pyarrow.Table` of `path` (string, as Hadoop takes it), `size` (int64, bytes) and one column per constant, in the order of `constants` and of
    the Arrow type that Spark gives their type. `data` names the columns to read; those with a field id are found by it. `name` is what EXPLAIN shows, and
    `rows` how many there are, by which Spark judges whether a join can send them to every executor.

    Raises:
        EngineError: the session has no JVM at hand, or this Spark is not one the Java glue works on.
    """
    session = spark._jsparkSession
    java_constants, java_data = (session.parseDataType(struct.json()) for struct in (constants, data))
    try:
        # Spark divides these bytes among the columns by the sizes of their types, which is how it reckons the size of rows elsewhere.
        size = rows * (java_constants.defaultSize() + java_data.defaultSize() + _ROW_OVERHEAD)
        index = new_object(spark, "PlannedFiles", _stream(files), java_constants, f"icefloe:/{name}", size)
        options = java_class(spark, "java.util.HashMap")()
        for key, value in READER_OPTIONS.items():
            options.put(key, value)
        relation = java_class(spark, f"{_DATASOURCES}.HadoopFsRelation")(
            index,
            java_constants,
            java_data,
            scala_object(spark, "scala.None"),
            _format(spark, data),
            java_class(spark, "org.apache.spark.api.python.PythonUtils").toScalaMap(options),
            session,
        )
        return DataFrame(session.baseRelationToDataFrame(relation), spark)
    except (Py4JError, TypeError) as error:
        words = java_words(error) if isinstance(error, Py4JError) else str(error)
        raise EngineError(f"Spark {spark.version} did not take the planned files: {words}") from error


def _format(spark: SparkSession, data: StructType) -> Any:
    """Spark's own format. Where rows are asked for their positions, one that counts them, if executors know it."""
    if POSITION_COLUMN in data.names and executors_know(spark):
        return new_object(spark, "CountedParquet", POSITION_COLUMN)
    return java_class(spark, f"{_DATASOURCES}.parquet.ParquetFileFormat")()


def select_as(rows: DataFrame, columns: Iterable[tuple[str | Column, str, Mapping[str, str]]]) -> DataFrame:
    """These columns, each by its name in the DataFrame or as it is made, with a new name and metadata."""
    spark, found = rows.sparkSession, list(columns)
    said = [(quoted(source) if isinstance(source, str) else None, name, json.dumps(metadata)) for source, name, metadata in found]
    made = java_class(spark, "java.util.ArrayList")()
    for source, _, _ in found:
        if not isinstance(source, str):
            made.add(source._jc)
    return DataFrame(new_object(spark, "NamedColumns", json.dumps(said), made).of(rows._jdf), spark)


def _stream(files: Any) -> bytes:
    """The table as one deflated Arrow stream: a single crossing, whatever the number of files."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, files.schema) as writer:
        writer.write_table(files)
    return zlib.compress(sink.getvalue(), _DEFLATE_LEVEL)


def hadoop_paths(locations: Any) -> Any:
    """An Arrow array of locations as Hadoop takes them: local ones with `file:`, so that `fs.defaultFS` does not move them elsewhere."""
    rooted = pc.starts_with(locations, "/")
    if pc.all(pc.or_(rooted, pc.match_substring_regex(locations, "^[A-Za-z][A-Za-z0-9+.-]*:/"))).as_py() is not False:
        return pc.if_else(rooted, pc.binary_join_element_wise("file:", locations, ""), locations)
    return pa.array([f"file:{local_path(text)}" if scheme_of(text) == "file" else text for text in locations.to_pylist()], pa.string())


def schemes_without_file_system(spark: SparkSession, schemes: Iterable[str]) -> list[str]:
    """The schemes that this Spark has no Hadoop file system for, and so cannot read natively."""
    jvm = jvm_of(spark)
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return [scheme for scheme in schemes if not _has_file_system(jvm, configuration, scheme)]


def _has_file_system(jvm: Any, configuration: Any, scheme: str) -> bool:
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Py4JError:
        return False
    return True


def gateway_is_at_hand(spark: SparkSession) -> bool:
    """Whether the session is a classic one."""
    try:
        gateway_of(spark)
    except EngineError:
        return False
    return True
