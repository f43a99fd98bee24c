"""Files of JSON lines, CSV or Parquet as a DataFrame with a schema, for loading into a table.

Which files and which format is the caller's choice; writing them to a table is `spark/write/data_file_job.py`.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import DataType, StringType, StructField, StructType

from icefloe.errors import (
    DataFileFormatError,
    EngineError,
    IcefloeError,
    InvalidInputError,
    InvalidSchemaError,
    UnsupportedTypeError,
    in_one_line,
)
from icefloe.io.locations import local_path, scheme_of
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.bridge.gateway import java_class
from icefloe.spark.jobs.spark_jobs import engine_error
from icefloe.spark.types.spark_types import COMMENT_KEY, column_named, schema_to_struct, struct_to_schema

JSON, CSV, PARQUET = "json", "csv", "parquet"

CORRUPT = "_corrupt_record"
# Only a whole ISO 8601 date and time is inferred as a timestamp; Spark's default infers one from `2024`, and takes `12:30` for a time of today.
TIMESTAMPS = "yyyy-MM-dd['T'][' ']HH:mm:ss[.SSSSSSSSS][.SSSSSS][.SSS][XXX]"
OPTIONS: Mapping[str, Mapping[str, str]] = {
    JSON: {"inferTimestamp": "true", "timestampFormat": TIMESTAMPS},
    CSV: {"header": "true", "timestampFormat": TIMESTAMPS},
    PARQUET: {},
}
# A row that does not match the schema ends the load; by default Spark would read it as a row of nulls.
STRICT = {"mode": "FAILFAST"}

# The key of Spark's own schema in a Parquet footer, and the settings by which its reader merges the columns of all files.
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
_MERGE_OPTION, _MERGE_CONF = "mergeSchema", "spark.sql.parquet.mergeSchema"
_NO_FOOTER = ("is not a Parquet file", "corrupted file")  # messages of parquet-java
LOG = logging.getLogger(__name__)

# Characters with a meaning where Hadoop reads a path as a pattern.
_PATTERN_SIGNS = re.compile(r"([\\*?\[\]{}])")
_MALFORMED = re.compile(r"\[MALFORMED_RECORD[^]]*\][^:]*: (?P<record>.*)")
_IN_FILE = re.compile(r"reading file (?P<path>\S+?)\.\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """The rows of files, not read yet, and the table schema of their columns, with fresh ids."""

    frame: DataFrame
    schema: Schema


def read_files(
    spark: SparkSession,
    paths: Sequence[str],
    file_format: str,
    *,
    declared: str | None = None,
    table_schema: Schema | None = None,
    options: Mapping[str, str] | None = None,
) -> FileRows:
    """Return the rows of files of one format.

    Args:
        spark: A classic session.
        paths: Files or folders.
        file_format: `json` (lines), `csv` (with a header line) or `parquet`.
        declared: The columns as SQL text, such as `id bigint, name string`; without it Spark infers them from all rows.
        table_schema: The table that the rows are for: a column of the same name is read with the table's type, not an inferred one.
        options: More options of Spark's reader, such as `{"sep": ";"}`.

    Raises:
        InvalidInputError: There are no columns, or rows are malformed.
        InvalidSchemaError: `declared` is not valid SQL or does not match the files.
        UnsupportedTypeError: A column has a type that tables do not have.
        EngineError: Spark cannot read the files.
    """
    reader = spark.read.format(file_format).options(**{**OPTIONS[file_format], **(options or {})})
    locations = [_spark_path(path) for path in paths]
    with reading():
        selected = _declared(declared) if declared else None
        if file_format == PARQUET:
            frame = reader.schema(_parquet_columns(spark, locations, options or {})).load(locations)
            return _select_columns(frame, selected or frame.schema)
        if selected is None:
            selected = read_as = _with_table_types(_inferred_columns(reader, locations, file_format), table_schema)
        else:
            read_as = selected if file_format == JSON else _in_file_order(reader.load(locations).schema, selected)
        return _select_columns(reader.options(**STRICT).schema(read_as).load(locations), selected)


def has_rows(frame: DataFrame) -> bool:
    """Return whether there is any row.

    Raises:
        InvalidInputError: A row is malformed.
    """
    with reading():
        return not frame.isEmpty()


@contextmanager
def reading() -> Iterator[None]:
    """Turn Spark's failures to read files into errors that name the file and the row."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _clearer(engine_error(error), str(error)) from error
    except EngineError as error:
        raise _clearer(error, str(error.__cause__ or error)) from error


def _clearer(error: IcefloeError, text: str) -> IcefloeError:
    record, file = _MALFORMED.search(text), _IN_FILE.search(text)
    path = _plain(file["path"]) if file else None
    if record is not None:
        return InvalidInputError(
            f"a row does not match its columns; Spark read {record['record'].partition('Parse Mode')[0].rstrip().removesuffix('.')}",
            path=path,
            next_step="correct the row, or state other columns; nothing was loaded",
        )
    if "CANNOT_READ_FILE_FOOTER" in text:
        return _not_whole(path)
    if "PARQUET_TYPE_ILLEGAL" in text and "NANOS" in text:
        return UnsupportedTypeError(
            "Spark does not read Parquet timestamps in nanoseconds",
            next_step="write the files with microseconds (pyarrow: coerce_timestamps='us')",
        )
    return error


def _not_whole(path: str | None) -> DataFileFormatError:
    return DataFileFormatError("the file is not a whole Parquet file", path=path, next_step="check that it is Parquet and not truncated")


def _plain(location: str) -> str:
    """Convert a location in an error of Spark to a path as the caller wrote it."""
    return local_path(location) if scheme_of(location) == "file" else location


def _inferred_columns(reader: DataFrameReader, locations: list[str], file_format: str) -> StructType:
    """Return the columns that Spark infers from all rows."""
    columns = reader.options(inferSchema="true", columnNameOfCorruptRecord=CORRUPT).load(locations).schema
    if CORRUPT in columns.names and file_format == JSON:
        raise InvalidInputError(
            "a line is not a JSON object", next_step="put one whole object on each line, or correct the line; nothing was loaded"
        )
    if not columns.fields:
        raise InvalidInputError("the files have no columns", next_step="give files with rows in them, or state the columns with --schema")
    return columns


def _parquet_columns(spark: SparkSession, locations: list[str], options: Mapping[str, str]) -> StructType:
    """Return the columns of Parquet files: of the first by name, or of all where Spark's option `mergeSchema` is true.

    They are passed to Spark's reader, which otherwise trusts what a footer states: it imports and calls the classes of user-defined types by name,
    takes expressions in the metadata of fields as defaults, and matches columns by the ids there.
    """
    # The format `binaryFile` lists the same files as Parquet and opens none.
    files = sorted(spark.read.format("binaryFile").options(**options).load(locations).inputFiles())
    if not files:
        raise InvalidInputError("there are no Parquet files at the given paths", next_step="name files, or a folder that contains some")
    merges = options.get(_MERGE_OPTION, options.get(_MERGE_OPTION.lower(), spark.conf.get(_MERGE_CONF)))
    first, *others = [_columns_in_footer(spark, file) for file in (files if str(merges).lower() == "true" else files[:1])]
    session = spark._jsparkSession
    merged = session.parseDataType(first.json())
    for struct in others:
        merged = merged.merge(session.parseDataType(struct.json()), str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true")
    return StructType.fromJson(json.loads(merged.json()))


def _columns_in_footer(spark: SparkSession, file: str) -> StructType:
    """Return the columns of one file, by Spark's schema in its footer, else by its Parquet schema, as Spark does."""
    path = java_class(spark, "org.apache.hadoop.fs.Path")(java_class(spark, "java.net.URI")(file))
    session_state = spark._jsparkSession.sessionState()
    source = java_class(spark, "org.apache.parquet.hadoop.util.HadoopInputFile").fromPath(path, session_state.newHadoopConf())
    try:
        reader = java_class(spark, "org.apache.parquet.hadoop.ParquetFileReader").open(source)
    except Py4JError as error:
        if any(words in str(error) for words in _NO_FOOTER):
            raise _not_whole(_plain(file)) from error
        raise
    try:
        footer = reader.getFooter().getFileMetaData()
    finally:
        reader.close()
    text = footer.getKeyValueMetaData().get(_SPARK_SCHEMA)
    if text is not None:
        try:
            return StructType.fromJson(_without_metadata(json.loads(text)))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, AssertionError, PySparkException):
            LOG.warning("%s has a Spark schema that cannot be read; its Parquet schema is used", in_one_line(file))
    converter = java_class(spark, "org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter")
    return StructType.fromJson(json.loads(converter(session_state.conf()).convert(footer.getSchema()).json()))


def _without_metadata(value: Any) -> Any:
    """Return the JSON of a Spark type with comments alone as the metadata of fields, and the types that user-defined ones are stored as."""
    if isinstance(value, list):
        return [_without_metadata(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "udt":
        return _without_metadata(value["sqlType"])
    metadata = value.get("metadata")
    comment = metadata.get(COMMENT_KEY) if isinstance(metadata, dict) else None
    plain = {key: _without_metadata(member) for key, member in value.items() if key != "metadata"}
    return {**plain, "metadata": {COMMENT_KEY: comment} if isinstance(comment, str) else {}} if metadata is not None else plain


def _declared(text: str) -> StructType:
    try:
        columns = StructType.fromDDL(text)
    except (PySparkException, Py4JError) as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        raise InvalidSchemaError(
            f"the schema {text!r} is not valid: {first}",
            next_step="write it as SQL columns: id bigint, name string, time timestamp",
        ) from error
    if not isinstance(columns, StructType):
        raise InvalidSchemaError(f"the schema {text!r} names no columns", next_step="write it as SQL columns: id bigint, name string")
    return columns


def _with_table_types(inferred: StructType, table_schema: Schema | None) -> StructType:
    if table_schema is None:
        return inferred
    table_types: dict[str, DataType] = {field.name: field.dataType for field in schema_to_struct(table_schema, field_ids=False)}
    return StructType([StructField(field.name, table_types.get(field.name, field.dataType)) for field in inferred])


def _in_file_order(header: StructType, selected: StructType) -> StructType:
    """Return the columns of a CSV file in the order of its header, as Spark matches them by position; selected ones with their declared type."""
    missing = [name for name in selected.names if name not in header.names]
    if missing:
        raise InvalidSchemaError(
            f"the files have no column {', '.join(map(repr, missing))}", next_step=f"their header names {', '.join(header.names)}"
        )
    kinds = {field.name: field.dataType for field in selected}
    return StructType([StructField(name, kinds.get(name, StringType())) for name in header.names])


def _select_columns(frame: DataFrame, selected: StructType) -> FileRows:
    """Select the declared columns of the frame, with their types and in their order."""
    missing = [name for name in selected.names if name not in frame.columns]
    if missing:
        raise InvalidSchemaError(
            f"the files have no column {', '.join(map(repr, missing))}", next_step=f"they have {', '.join(frame.columns)}"
        )
    kinds = {field.name: field.dataType for field in frame.schema}
    columns = [_column(field, kinds[field.name]) for field in selected]
    is_same = frame.columns == selected.names and all(kinds[field.name] == field.dataType for field in selected)
    return FileRows(frame=frame if is_same else frame.select(columns), schema=struct_to_schema(selected))


def _column(field: StructField, kind: DataType) -> Column:
    column = column_named(field.name)
    return column if kind == field.dataType else column.cast(field.dataType).alias(field.name)


def _spark_path(path: str) -> str:
    """Return a location for Spark's reader: local ones with their scheme, and pattern characters escaped."""
    if scheme_of(path) != "file":
        return path
    return "file:" + _PATTERN_SIGNS.sub(r"\\\1", local_path(path))
