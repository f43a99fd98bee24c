"""Tables of Spark's session catalog as the `source_table` of a procedure: the folders of their files, and their replacement by an Iceberg table."""

import logging
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import CharType, StructType, VarcharType

from icefloe.errors import EngineError, InvalidInputError, NoSuchTableError, TableAlreadyExistsError, UnsupportedFeatureError, in_one_line
from icefloe.migration.existing_files import SourceFolders, SourceTable
from icefloe.migration.migrate_table import BACKUP_SUFFIX
from icefloe.spark.bridge.gateway import java_class, java_message, scala_object
from icefloe.spark.types.declared_types import struct_of
from icefloe.spark.types.spark_types import quote_name, struct_to_schema
from icefloe.spec.partitioning.partition_folders import folders_in_path

LOG = logging.getLogger(__name__)
SESSION_CATALOG = "spark_catalog"
_FORMATS = ("parquet", "orc")  # formats whose files can be added
_TABLE_TYPES = "org.apache.spark.sql.catalyst.catalog.CatalogTableType"
# The property that makes Hive delete the files of an external table when it is dropped.
_PURGE = "external.table.purge"
_RAW_TYPE = "__CHAR_VARCHAR_TYPE_STRING"


def source_folders(
    spark: SparkSession, text: str, partition_filter: Mapping[str, str], is_iceberg: Callable[[tuple[str, ...]], bool] = lambda _: False
) -> SourceFolders | None:
    """Return the folders with the files of a table of Spark's session catalog; None if the text is not the name of such a table.

    Args:
        spark: the session.
        text: a name such as `db.t` or `spark_catalog.db.t`; without a namespace, the current namespace of the session catalog is used.
        partition_filter: values of partition columns, by name. Only partitions with these values are returned.
        is_iceberg: a function that returns True if a name is an Iceberg table; then a backup with this name belongs to a finished migration.

    Returns:
        The location of the table, or the locations of its partitions, each with a slash at its end; with the table's columns and properties.

    Raises:
        InvalidInputError: the filter has a column by which the table is not partitioned, or no partition has its values.
        UnsupportedFeatureError: files of the table's format cannot be added.
        NoSuchTableError: a migration of the table was killed, so that its rows are in the backup.
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
    identifier = state.sqlParser().parseTableIdentifier(".".join(map(quote_name, parts)))
    if not state.catalog().tableExists(identifier):
        _refuse_backup(state, parts, is_iceberg)
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
    struct = struct_of(table.schema().json())
    _warn_of_lengths(text, struct)
    schema = struct_to_schema(struct)
    names = _members(table.partitionColumnNames())
    properties = {entry._1(): entry._2() for entry in _members(table.properties().toSeq())}
    source = SessionCatalogTable(spark, table)
    if not columns:
        return SourceFolders([_folder(spark, table.location())], schema, names, properties, source)
    folders = SourceFolders([], schema, names, properties, source)
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


class SessionCatalogTable(SourceTable):
    """A table of Spark's session catalog that a migration replaces. It renames the table to a backup, and can restore it."""

    def __init__(self, spark: SparkSession, table: Any) -> None:
        """Store the table's current entry in the catalog, with which `restore` restores its name and type.

        Args:
            spark: the session.
            table: the table's entry, an object of Spark's class `CatalogTable`.
        """
        self._spark = spark
        self._entry = table
        self._identifier = table.identifier()
        self._backup: Any = None
        self.name = (self._identifier.database().get(), self._identifier.table())
        self.location = _folder(spark, table.location())

    def make_backup(self, backup_name: str) -> None:
        state = self._spark._jsparkSession.sessionState()
        backup = state.sqlParser().parseTableIdentifier(".".join(map(quote_name, (self.name[0], backup_name))))
        full_name = ".".join((self.name[0], backup_name))
        if state.catalog().tableExists(backup):
            raise TableAlreadyExistsError(
                f"{full_name} exists, which would be the backup of {'.'.join(self.name)}",
                next_step="pass another backup_table_name; drop it only if the rows are elsewhere",
            )
        self._backup = backup
        self._call("make an external table of", lambda: state.catalog().alterTable(self._as_external()))
        self._call("rename", lambda: self._rename(self._identifier, backup))
        if not self._keeps_files(state.catalog().getTableMetadata(backup)):
            raise EngineError(
                f"the catalog did not make {full_name} an external table at {self.location}, so that its files could be deleted with it",
                next_step="make it external in the catalog, then repeat; or use snapshot",
            )

    def restore(self, *, is_external: bool = False) -> None:
        if self._backup is None:
            return
        catalog = self._spark._jsparkSession.sessionState().catalog()

        def back() -> None:
            if not catalog.tableExists(self._identifier):
                self._rename(self._backup, self._identifier)
            if not is_external:
                catalog.alterTable(self._entry)
                catalog.invalidateCachedTable(self._identifier)

        self._call("restore", back)

    def drop_backup(self) -> None:
        catalog = self._spark._jsparkSession.sessionState().catalog()

        def drop() -> None:
            if not self._keeps_files(catalog.getTableMetadata(self._backup)):
                raise EngineError(f"the backup of {'.'.join(self.name)} is not an external table at {self.location} any more")
            catalog.dropTable(self._backup, True, False)

        self._call("drop the backup of", drop)

    def _rename(self, old: Any, new: Any) -> None:
        catalog = self._spark._jsparkSession.sessionState().catalog()
        catalog.renameTable(old, new)
        # Spark caches the relation of a table by name, and a new table may get the old name.
        catalog.invalidateCachedTable(old)
        catalog.invalidateCachedTable(new)

    def _as_external(self) -> Any:
        """Return a copy of the entry that makes the table external, so that dropping the table keeps its files."""
        properties = self._entry.properties()
        if properties.contains(_PURGE):
            properties = properties.updated(_PURGE, "false")
        new = {"tableType": scala_object(self._spark, _TABLE_TYPES).EXTERNAL(), "properties": properties}
        fields = [(self._entry.productElementName(place), place) for place in range(self._entry.productArity())]
        # The number of fields differs between versions of Spark.
        return self._entry.copy(*(new.get(name, self._entry.productElement(place)) for name, place in fields))

    def _keeps_files(self, entry: Any) -> bool:
        """Return whether dropping a table with this catalog entry keeps the files of the source table."""
        purge = entry.properties().get(_PURGE)
        is_purged = purge.isDefined() and str(purge.get()).lower() != "false"
        return entry.tableType().name() == "EXTERNAL" and not is_purged and _folder(self._spark, entry.location()) == self.location

    def _call(self, what: str, step: Callable[[], Any]) -> None:
        try:
            step()
        except (Py4JError, PySparkException) as error:
            reason = java_message(error) if isinstance(error, Py4JError) else str(error).partition("\n")[0]
            raise EngineError(
                f"the catalog of Spark could not {what} {'.'.join(self.name)}: {reason}",
                next_step="check its rights there; or use snapshot, which changes nothing of the source",
            ) from error


def _refuse_backup(state: Any, parts: list[str], is_iceberg: Callable[[tuple[str, ...]], bool]) -> None:
    """Raise `NoSuchTableError` if a table does not exist, but its backup exists, which an unfinished migration has left."""
    namespace = parts[:-1] or [state.catalog().getCurrentDatabase()]
    backup = [*namespace, f"{parts[-1]}{BACKUP_SUFFIX}"]
    identifier = state.sqlParser().parseTableIdentifier(".".join(map(quote_name, backup)))
    if state.catalog().tableExists(identifier) and not is_iceberg((*namespace, parts[-1])):
        name, backup_name = ".".join((*namespace, parts[-1])), ".".join(backup)
        raise NoSuchTableError(
            f"there is no table {name}, but its backup {backup_name}: a migration was killed before its end",
            table=name,
            next_step=f"ALTER TABLE {backup_name} RENAME TO {name}, then repeat",
        )


def _warn_of_lengths(text: str, struct: StructType) -> None:
    """Warn about columns of type CHAR(n) or VARCHAR(n), whose lengths an Iceberg table does not enforce."""
    names = [field.name for field in struct.fields if isinstance(field.dataType, CharType | VarcharType) or _RAW_TYPE in field.metadata]
    if names:
        LOG.warning(
            "%s has columns of CHAR(n) or VARCHAR(n): %s. They are strings in an Iceberg table, which does not check their length",
            in_one_line(text),
            in_one_line(", ".join(names)),
        )


def _check_format(text: str, table: Any) -> None:
    provider = table.provider().get().lower() if table.provider().isDefined() else ""
    serde = table.storage().serde()
    described = f"{provider} {serde.get() if serde.isDefined() else ''}".lower()
    if not any(file_format in described for file_format in _FORMATS):
        raise UnsupportedFeatureError(
            f"the files of {text} cannot be added: its format is {described.strip() or 'view'}, not Parquet or ORC",
            next_step="INSERT its rows into the table, or write them as Parquet",
        )
    transactional = table.properties().get("transactional")
    if transactional.isDefined() and str(transactional.get()).lower() == "true":
        raise UnsupportedFeatureError(
            f"the files of {text} cannot be added: it is a transactional table of Hive, whose files have the rows of many versions",
            next_step="INSERT its rows into the table",
        )


def _check_values(text: str, folder: str, values: Mapping[str, str]) -> None:
    """Raise `UnsupportedFeatureError` if a partition's values differ from its folder's name, because files are added with the values in their paths."""
    in_path = {name.lower(): unquote(text) for name, text in folders_in_path(folder)}
    wrong = [name for name, value in values.items() if in_path.get(name, value) != value]
    if wrong:
        raise UnsupportedFeatureError(
            f"a partition of {text} has {wrong[0]}={values[wrong[0]]!r} in the catalog, and its folder is {folder}",
            path=folder,
            next_step="move the files to a folder with the values of their partition, or append their rows",
        )


def _members(sequence: Any) -> list[Any]:
    """Return the members of a Scala sequence as a list."""
    return [sequence.apply(place) for place in range(sequence.size())]


def _folder(spark: SparkSession, location: Any) -> str:
    """Convert a location, a Java URI, to a path with a slash at its end. The URI itself would have escapes for some characters of the name."""
    return f"{str(java_class(spark, 'org.apache.hadoop.fs.Path')(location).toString()).rstrip('/')}/"
