"""The files of a table of Spark's session catalog, for procedures that take a `source_table` by its name."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from icefloe.errors import InvalidInputError, UnsupportedFeatureError
from icefloe.kernel.partitioning.partition_folders import folders_in_path
from icefloe.maintenance.snapshot_table import SourceFolders
from icefloe.spark.bridge.gateway import java_class, scala_object
from icefloe.spark.types.spark_types import quoted, struct_to_schema

SESSION_CATALOG = "spark_catalog"
_FORMATS = ("parquet", "orc")  # formats whose files can be added


def source_folders(spark: SparkSession, text: str, partition_filter: Mapping[str, str]) -> SourceFolders | None:
    """Return the folders that hold the files of a table of Spark's session catalog, or None if the text names no such table.

    Args:
        spark: the session.
        text: a name such as `db.t` or `spark_catalog.db.t`; one without a namespace is in the current namespace of the session catalog.
        partition_filter: values of partition columns, by name. Only partitions with these values count.

    Returns:
        One location for the table, or one for each of its partitions, each with a slash at its end; with the table's columns and properties.

    Raises:
        InvalidInputError: the filter names a column by which the table is not partitioned, or no partition has its values.
        UnsupportedFeatureError: files of the table's format cannot be added.
    """
    state = spark._jsparkSession.sessionState()
    try:
        parts = _members(state.sqlParser().parseMultipartIdentifier(text))
    except PySparkException:
        return None  # the text is a path, not a name
    if len(parts) == 3 and parts[0] == SESSION_CATALOG:
        parts = parts[1:]
    if len(parts) > 2:
        return None
    identifier = state.sqlParser().parseTableIdentifier(".".join(map(quoted, parts)))
    if not state.catalog().tableExists(identifier):
        return None
    table = state.catalog().getTableMetadata(identifier)
    _check_format(text, table)
    columns = [column.lower() for column in _members(table.partitionColumnNames())]
    filter_values = {name.lower(): value for name, value in partition_filter.items()}
    unknown = sorted(set(filter_values) - set(columns))
    if unknown:
        raise InvalidInputError(
            f"{text} is not partitioned by {', '.join(unknown)}", next_step=f"its partition columns are: {', '.join(columns) or 'none'}"
        )
    schema = struct_to_schema(StructType.fromJson(json.loads(table.schema().json())))
    names = _members(table.partitionColumnNames())
    properties = {entry._1(): entry._2() for entry in _members(table.properties().toSeq())}
    if not columns:
        return SourceFolders([_folder(spark, table.location())], schema, names, properties)
    folders = SourceFolders([], schema, names, properties)
    for partition in _members(state.catalog().listPartitions(identifier, scala_object(spark, "scala.None"))):
        values = {entry._1().lower(): entry._2() for entry in _members(partition.spec().toSeq())}
        if all(values[name] == value for name, value in filter_values.items()):
            folder = _folder(spark, partition.location())
            _check_values(text, folder, values)
            folders.append(folder)
    if filter_values and not folders:
        partition_name = "/".join(f"{name}={value}" for name, value in filter_values.items())
        raise InvalidInputError(f"{text} has no partition {partition_name}", next_step=f"SHOW PARTITIONS {text} lists them")
    return folders


def _check_format(text: str, table: Any) -> None:
    provider = table.provider().get().lower() if table.provider().isDefined() else ""
    serde = table.storage().serde()
    described = f"{provider} {serde.get() if serde.isDefined() else ''}".lower()
    if not any(file_format in described for file_format in _FORMATS):
        raise UnsupportedFeatureError(
            f"the files of {text} cannot be added: its format is {described.strip() or 'view'}, not Parquet or ORC",
            next_step="INSERT its rows into the table, or write them as Parquet",
        )


def _check_values(text: str, folder: str, values: Mapping[str, str]) -> None:
    """Refuse a partition at a folder with other values in its name: files are added with the values of their paths. Raises `UnsupportedFeatureError`."""
    in_path = {name.lower(): unquote(text) for name, text in folders_in_path(folder)}
    wrong = [name for name, value in values.items() if in_path.get(name, value) != value]
    if wrong:
        raise UnsupportedFeatureError(
            f"a partition of {text} has {wrong[0]}={values[wrong[0]]!r} in the catalog, and its folder is {folder}",
            path=folder,
            next_step="move the files to a folder with the values of their partition, or append their rows",
        )


def _members(sequence: Any) -> list[Any]:
    """Return the members of a Scala sequence."""
    return [sequence.apply(place) for place in range(sequence.size())]


def _folder(spark: SparkSession, location: Any) -> str:
    """Return a Java URI as a path: it escapes characters that the folder has in its name."""
    return f"{str(java_class(spark, 'org.apache.hadoop.fs.Path')(location).toString()).rstrip('/')}/"
