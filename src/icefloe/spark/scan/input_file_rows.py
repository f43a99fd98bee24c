"""Reading files of JSON lines, CSV or Parquet as a DataFrame with a given schema, to load them into a table.

The caller chooses the files and the format; `spark/write/data_file_job.py` writes the rows to a table.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from icefloe.errors import DataFileFormatError, EngineError, IcefloeError, InvalidInputError, UnsupportedTypeError
from icefloe.io.locations import local_path, scheme_of
from icefloe.spark.jobs.spark_jobs import engine_error
from icefloe.spark.types.spark_types import column_named, schema_to_struct
from icefloe.spec.schema.schema import Schema

JSON, CSV, PARQUET = "json", "csv", "parquet"

# Complete ISO 8601 dates and times, with any fraction of a second.
_TIMESTAMPS = {
    "timestampFormat": "yyyy-MM-dd['T'][' ']HH:mm:ss[.SSSSSSSSS][.SSSSSS][.SSS][XXX]",
    "timestampNTZFormat": "yyyy-MM-dd['T'][' ']HH:mm:ss[.SSSSSSSSS][.SSSSSS][.SSS]",
    # Times without a zone, for columns of instants.
    "timeZone": "UTC",
}
OPTIONS: Mapping[str, Mapping[str, str]] = {JSON: _TIMESTAMPS, CSV: {"header": "true", **_TIMESTAMPS}, PARQUET: {}}
# A row that does not match the schema is an error; by default Spark would read it as a row of nulls.
STRICT = {"mode": "FAILFAST"}

# Characters with a special meaning in Hadoop's path patterns.
_PATTERN_SIGNS = re.compile(r"([\\*?\[\]{}])")
_MALFORMED = re.compile(r"\[MALFORMED_RECORD[^]]*\][^:]*: (?P<record>.*)")
_IN_FILE = re.compile(r"reading file (?P<path>\S+?)\.\s")


class RowsRequest(Protocol):
    """A request to read files as rows: the files, their format and their columns. `icefloe.loading` implements it."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths of the files to read."""

    @property
    def file_format(self) -> str:
        """Spark's name for the format of the files: `json`, `csv` or `parquet`."""

    @property
    def columns(self) -> Schema:
        """The columns of the rows to return."""

    @property
    def read_as(self) -> Schema:
        """The schema for Spark's reader: for CSV, where Spark matches columns by position, all columns of the files in their order; otherwise `columns`."""

    @property
    def options(self) -> Mapping[str, str]:
        """Additional options of Spark's reader for the format."""


def read_files(spark: SparkSession, request: RowsRequest) -> DataFrame:
    """Return a lazy DataFrame with the rows of files of one format, and the columns and types of the request.

    Spark always gets the schema. If it took the schema from a Parquet footer, it would import and call classes of user-defined types by name, use expressions
    in field metadata as defaults, and match columns by the field ids in the footer.

    Args:
        spark: A classic session.
        request: The files and their columns.

    Raises:
        EngineError: Spark cannot open the files. Errors of rows are raised when the rows are read; run such jobs in `reading()`.
    """
    reader = spark.read.format(request.file_format).options(**{**OPTIONS[request.file_format], **request.options})
    if request.file_format != PARQUET:
        reader = reader.options(**STRICT)
    with reading():
        frame = reader.schema(schema_to_struct(request.read_as, field_ids=False)).load([_spark_path(path) for path in request.paths])
        return frame.select([column_named(field.name) for field in request.columns.fields])


@contextmanager
def reading() -> Iterator[None]:
    """Return a context that runs jobs on rows of `read_files`, and translates Spark's errors to errors of Icefloe that contain the file and the row."""
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
            next_step="correct the row, state other columns, or pass --engine arrow; nothing was loaded",
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
    """Convert a location in an error of Spark to a path: without `file:` if it is local."""
    return local_path(location) if scheme_of(location) == "file" else location


def _spark_path(path: str) -> str:
    """Convert a path to a location for Spark's reader: a local path gets the scheme `file:`, and its pattern characters are escaped."""
    if scheme_of(path) != "file":
        return path
    return "file:" + _PATTERN_SIGNS.sub(r"\\\1", local_path(path))
