"""The files of a table of Spark's own catalog, for procedures that take a `source_table` by its name. Layer: spark."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icefloe.errors import InvalidInputError, UnsupportedFeatureError
from icefloe.spark.bridge.gateway import java_class, scala_object
from icefloe.spark.types.spark_types import quoted

SESSION_CATALOG = "spark_catalog"
_FORMATS = ("parquet", "orc")  # whose files can be added


def source_folders(spark: SparkSession, text: str, partition_filter: Mapping[str, str]) -> Sequence[str] | None:
    """Return the folders that hold the files of a table of Spark's own catalog, or None where the text names no such table.

    Args:
        text: a name such as `db.t` or `spark_catalog.db.t`; one without a namespace is looked up in the current one of Spark's own catalog.
        partition_filter: values of partition columns, by name. Only partitions with these values count.

    Returns:
        One location for the table, or one for each of its partitions, each with a slash at its end.

    Raises:
        InvalidInputError: the filter names a column by which the table is not partitioned, or no partition has its values.
        UnsupportedFeatureError: files of the table's format cannot be added.
    """
    state = spark._jsparkSession.sessionState()
    try:
        parts = _list(state.sqlParser().parseMultipartIdentifier(text))
    except PySparkException:
        return None  # a path, not a name
    if len(parts) == 3 and parts[0] == SESSION_CATALOG:
        parts = parts[1:]
    if len(parts) > 2:
        return None
    identifier = state.sqlParser().parseTableIdentifier(".".join(map(quoted, parts)))
    if not state.catalog().tableExists(identifier):
        return None
    table = state.catalog().getTableMetadata(identifier)
    _check_format(text, table)
    columns = [column.lower() for column in _list(table.partitionColumnNames())]
    wanted = {name.lower(): value for name, value in partition_filter.items()}
    unknown = sorted(set(wanted) - set(columns))
    if unknown:
        raise InvalidInputError(
            f"{text} is not partitioned by {', '.join(unknown)}", next_step=f"its partition columns are: {', '.join(columns) or 'none'}"
        )
    if not columns:
        return [_folder(spark, table.location())]
    found = []
    for partition in _list(state.catalog().listPartitions(identifier, scala_object(spark, "scala.None"))):
        values = {entry._1().lower(): entry._2() for entry in _list(partition.spec().toSeq())}
        if all(values[name] == value for name, value in wanted.items()):
            found.append(_folder(spark, partition.location()))
    if wanted and not found:
        shown = "/".join(f"{name}={value}" for name, value in wanted.items())
        raise InvalidInputError(f"{text} has no partition {shown}", next_step=f"SHOW PARTITIONS {text} lists them")
    return found


def _check_format(text: str, table: Any) -> None:
    provider = table.provider().get().lower() if table.provider().isDefined() else ""
    serde = table.storage().serde()
    described = f"{provider} {serde.get() if serde.isDefined() else ''}".lower()
    if not any(one in described for one in _FORMATS):
        raise UnsupportedFeatureError(
            f"{text} is a table of the format {described.strip() or 'view'}, whose files cannot be added",
            next_step="INSERT its rows into the table, or write them as Parquet",
        )


def _list(sequence: Any) -> list[Any]:
    """The members of a sequence of Scala's."""
    return [sequence.apply(place) for place in range(sequence.size())]


def _folder(spark: SparkSession, location: Any) -> str:
    """A location of Java's as text: its URI escapes characters that are in the folder's name as they are."""
    return f"{str(java_class(spark, 'org.apache.hadoop.fs.Path')(location).toString()).rstrip('/')}/"
