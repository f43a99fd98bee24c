"""`SparkDataSource`: finds the table for `spark.read.format("icefloe")` and `df.write.format("icefloe")` in a classic session, by the options.

If the options name a table of an attached catalog, it is the same table as in SQL. All other tables are in a hidden catalog, where the name of a table is the
options as JSON: tables by location, tables of catalogs that are not attached, and reads with the options `columns` and `where`.

`bridge/java/DefaultSource.java` is the Java side; `connect/python_data_source.py` is the data source for Spark Connect.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.sql import SparkSession

from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import InvalidInputError, NoSuchCatalogError, NotFoundError, UnsupportedFeatureError
from icefloe.metadata_tables.metadata_table_registry import METADATA_TABLES
from icefloe.operations.data_scan import DataScan
from icefloe.operations.write_result import WriteResult
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.gateway import add_formats, java_class, static_method
from icefloe.spark.bridge.messages import TableMessage, TableToLoad
from icefloe.spark.bridge.optimizer_rule import install_rule
from icefloe.spark.catalog.attached_catalogs import PREFIX, resolve_name
from icefloe.spark.catalog.changelog_table import CHANGES, ChangelogTable
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.catalog.spark_metadata_table import SparkMetadataTable
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.connect.connect_options import (
    SPARK_POINTS,
    RegisteredCatalogs,
    SourceOptions,
    is_location,
    load_table,
    parse_options,
    to_scan,
)
from icefloe.spark.connect.register import registered_in
from icefloe.spark.runtime.named_sessions import OPTION, name_session, session_named
from icefloe.spark.scan.change_stream import ChangesTable
from icefloe.spark.scan.filter_pushdown import pruning_filter
from icefloe.spark.scan.function_pushdown import LocalDays
from icefloe.spark.scan.read_options import PushedQuery
from icefloe.spark.scan.read_strategy import read
from icefloe.spark.scan.readable_table import ReadableTable
from icefloe.spark.scan.spark_scan import ConnectorScan, statistics
from icefloe.spark.scan.table_selector import TableSelection, at_timestamp, at_version, shown_in
from icefloe.spark.types.spark_types import quote_name, schema_to_struct
from icefloe.spark.write.sql_write import Write
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.table.static_table import StaticTable
from icefloe.table.table import Table

HIDDEN = "icefloe_format"
_SOURCE_KEY = "formats"  # the name by which `DefaultSource.java` finds the Python object
_COLUMN_BYTES = 16  # estimated bytes of a value; Spark's own scan replaces this scan, and estimates by the sizes of files


def offer(spark: SparkSession, catalog_class: str) -> None:
    """Register the data sources `icefloe` and, without Java's Iceberg, `iceberg`, for all sessions of the JVM. A second call changes nothing.

    Args:
        spark: a session of the JVM.
        catalog_class: name of the Java class for catalogs, with which the hidden catalog is registered.
    """
    static_method(spark, "PythonBridge", "register", _SOURCE_KEY, SparkDataSource(catalog_class))
    add_formats(spark)
    name_session(spark)


class SparkDataSource(PythonCallback):
    """The Python side of the data sources `icefloe` and `iceberg`. All sessions of a JVM share one object."""

    def __init__(self, catalog_class: str) -> None:
        self._catalog_class = catalog_class

    @connector_method
    def table(self, options: dict[str, str], active: JavaObject) -> list[str]:
        """Return the name of the table that options describe, as its parts: the catalog, then the name in the catalog.

        Args:
            options: the options of the read or write.
            active: Java's active session, which may differ from the session that reads.
        """
        spark = session_named(options.pop(OPTION, None)) or SparkSession(SparkContext.getOrCreate(), active)
        if not spark._jsparkSession.equals(active):
            # Spark loads catalogs with the settings of the active session, whichever session reads; `createDataFrame` also changes the active session.
            java_class(spark, "org.apache.spark.sql.classic.SparkSession").setActiveSession(spark._jsparkSession)
        # Spark passes the time travel options later, when it loads the table.
        parsed = parse_options({name: value for name, value in options.items() if name.lower() not in SPARK_POINTS})
        if not is_location(parsed.path or "") and parsed.columns == ("*",) and parsed.where is None:
            resolved = resolve_name(spark, _parts(spark, parsed))
            if resolved is not None:
                _check_no_view(*resolved)
                return [resolved[0].name, *resolved[1]]
        self._attach_hidden(spark)
        table_options = {
            name: value for name, value in options.items() if not is_location(parsed.path or "") or name.lower() not in SPARK_POINTS
        }
        return [HIDDEN, json.dumps(table_options)]

    def _attach_hidden(self, spark: SparkSession) -> None:
        install_rule(spark)
        setting = f"{PREFIX}{HIDDEN}"
        if spark.conf.get(setting, None) is not None:
            return
        key = str(uuid.uuid4())
        static_method(spark, "PythonBridge", "register", key, HiddenCatalog(spark))
        spark.conf.set(f"{setting}.icefloe", key)
        spark.conf.set(setting, self._catalog_class)


class HiddenCatalog(PythonCallback):
    """The hidden catalog of a session, for tables that options describe and that are in no attached catalog. The name of a table is the options as JSON."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @connector_method
    def load_table(self, request: TableToLoad) -> "TableByOptions | SparkMetadataTable":
        """Return the table or metadata table that the options in the request's table name describe.

        Raises:
            NoSuchCatalogError: the catalog in the options is neither attached nor configured.
            InvalidInputError: options contradict each other, or have an invalid value.
        """
        options = parse_options(json.loads(request["table"][-1]))
        of_location = is_location(options.path or "")
        folder, _, part = (options.path or "").rpartition("#")
        if of_location and part.lower() in METADATA_TABLES:
            request["table"] = [options.path or ""]
            return self._metadata_table(replace(options, path=folder), part.lower(), request)
        name = [options.path or ""] if of_location else _parts(self._spark, options)
        request["table"] = list(name)  # Spark's own errors contain the name
        resolved = None if of_location else resolve_name(self._spark, name)
        registered = registered_in(self._spark._jsparkSession)
        try:
            table: Table | StaticTable
            if resolved is None:
                table = self._load_by_location(options, registered)
            else:
                table = shown_in(resolved[0].name, resolved[0].catalog.load_table(resolved[1]))
        except NoSuchCatalogError as error:
            raise NoSuchCatalogError(
                f"this session has no catalog {name[0]!r}, and it is not configured elsewhere",
                next_step=f'attach it: icefloe.spark.attach(spark, "{name[0]}", catalog)',
            ) from error
        at = _at(options, table, request)
        if at.is_part:
            options = replace(options, snapshot_id=at.snapshot_id, branch=at.branch, tag=at.tag, as_of_ms=at.as_of_ms)
        return TableByOptions(self._spark, table, options)

    @connector_method
    def load_changes(self, request: TableMessage) -> ChangesTable:
        """Return the changes of the table that the options in the request's table name describe, for streams with the option `read.mode`.

        Raises:
            InvalidInputError: The options select rows or columns, or the table is a metadata table or a metadata file.
        """
        table = self.load_table({"table": request["table"]})
        if not isinstance(table, TableByOptions):
            raise InvalidInputError(
                "a metadata table is read as a stream of changes, and changes are those of the rows of a table", next_step="name the table"
            )
        return ChangesTable(self._spark, table.name(), table.selection_of_stream())

    def _metadata_table(self, options: SourceOptions, name: str, request: Mapping[str, Any]) -> SparkMetadataTable:
        """Return a metadata table of the table in a folder. Users write the location as with Java's Iceberg: `/folder/of/table#files`."""
        if options.columns != ("*",) or options.where is not None:
            raise InvalidInputError(
                f"the options columns and where are for a table's own rows, not for {options.path}#{name}",
                next_step="select and filter the DataFrame",
            )
        table = self._load_by_location(options, registered_in(self._spark._jsparkSession))
        selected = replace(_at(options, table, request), metadata_table=name)
        table_class = ChangelogTable if name == CHANGES else SparkMetadataTable
        return table_class(self._spark, "path", selected, name)

    @staticmethod
    def _load_by_location(options: SourceOptions, registered: RegisteredCatalogs) -> Table | StaticTable:
        """Load the table at a location. If the location is the table's folder, the table can be written; if it is a metadata file, the table is read-only."""
        is_folder = options.storage is None and is_location(options.path or "") and not (options.path or "").endswith(".json")
        return FileSystemCatalog.table_at(options.path or "", options.properties) if is_folder else load_table(options, registered)

    @connector_method
    def table_exists(self, request: TableMessage) -> bool:
        """Return True if there is a table at the location. Otherwise raise `UnsupportedFeatureError`, because Spark would try to create the table."""
        options = parse_options(json.loads(request["table"][-1]))
        with suppress(InvalidInputError, NotFoundError):
            if is_location(options.path or ""):
                request["table"] = [options.path or ""]  # Spark's own errors contain the name
                self._load_by_location(options, registered_in(self._spark._jsparkSession))
                return True
        return self.create_table(request)

    @connector_method
    def create_table(self, _: TableMessage) -> bool:
        """Raise `UnsupportedFeatureError`, because a table can only be created in an attached catalog."""
        raise UnsupportedFeatureError(
            "only a table of an attached catalog is made by format(...).save(...)",
            next_step='attach its catalog: icefloe.spark.attach(spark, name, catalog); or write with mode("append") or mode("overwrite") to a table',
        )

    stage_table = create_table


def _at(options: SourceOptions, table: Table | StaticTable, request: Mapping[str, Any]) -> TableSelection:
    """Apply `versionAsOf` or `timestampAsOf`, which are in the request. Raises `InvalidInputError` if another option selects a snapshot too."""
    selected = TableSelection(table=table)  # type: ignore[arg-type]  # both are read alike
    version, micros = request.get("version"), request.get("timestamp")
    if version is None and micros is None:
        return selected
    if any(point is not None for point in (options.snapshot_id, options.branch, options.tag, options.as_of_ms, options.start_snapshot_id)):
        raise InvalidInputError(
            f"{table.full_name} is read as of a version or a time and by another option that chooses snapshots",
            next_step="give one of versionAsOf, timestampAsOf, snapshot-id, branch, tag, as-of-timestamp and start-snapshot-id",
        )
    return at_version(selected, version) if version is not None else at_timestamp(selected, int(micros or 0))


class TableByOptions(SparkTable):
    """A table of the hidden catalog: only the rows and columns that options select are read. Writes to a table from a metadata file raise errors."""

    prunes_nested = False

    def __init__(self, spark: SparkSession, table: Table | StaticTable, options: SourceOptions) -> None:
        super().__init__(spark, "", TableSelection(table=table))  # type: ignore[arg-type]  # both are read alike
        self._source_options = options

    def name(self) -> str:
        """Return the table's full name, for messages and EXPLAIN."""
        return self._selected.table.full_name

    def parts(self) -> Sequence[str]:
        """Return an empty name, because no SQL statement can name the table."""
        return ()

    def identity(self) -> str:
        """Return a text that is equal for the same state of the table with the same options."""
        return f"{super().identity()} {self._source_options.where} {self._source_options.columns}"

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        return {**super().constants(), "metadataColumns": [], "samplesFiles": False}

    def _columns_json(self) -> str:
        scan = self._scan()
        return schema_to_struct(scan.as_held(scan.projection()), field_ids=False).json()

    def filters(self, query: PushedQuery) -> list[bool]:
        """Return False for each predicate: pushed predicates only prune files, and Spark evaluates all of them on the rows."""
        return ReadableTable.filters(self, query)

    def aggregate(self, _: PushedQuery) -> str | None:
        """Return None, because aggregates are not pushed down."""
        return None

    def scan(self, query: PushedQuery) -> "ScanByOptions":
        """Return a scan of the rows that the options and the pushed predicates select."""
        scan = self._scan()
        pushed_filter = pruning_filter(query.get("filters") or (), scan.schema(), partial(LocalDays, self._spark, query["zone"]))
        return ScanByOptions(self._spark, scan.filter(pushed_filter), query)

    def stream_scan(self, query: PushedQuery) -> PythonCallback:
        """Return the scan from which Spark creates a stream of the table. Raises the errors of `selection_of_stream`."""
        self.selection_of_stream()
        return super().stream_scan(query)

    def selection_of_stream(self) -> TableSelection:
        """Return the table of which a stream is read.

        Raises:
            InvalidInputError: The options select rows or columns, or the table is a metadata file, which never changes.
        """
        table, options = self._selected.table, self._source_options
        if not isinstance(table, Table):
            raise InvalidInputError(
                f"{options.path} is a metadata file, which never changes",
                next_step="read the folder of the table, or its name in a catalog",
            )
        if options.where is not None or options.columns != ("*",):
            raise InvalidInputError(
                f"the stream of {table.full_name} is read with the options where or columns", next_step="select and filter the DataFrame"
            )
        return self._selected

    def _run(self, write: Write) -> WriteResult | None:
        if self._source_options.where is not None:  # the filter for the rows to replace
            if write.overwrite_filter is None or write.options.overwrites_partitions:
                raise InvalidInputError(
                    "the option where chooses the rows that an overwrite replaces",
                    next_step='leave it out, or write with mode("overwrite") and without the overwrite-mode dynamic',
                )
            write = replace(write, overwrite_filter=to_expression(self._source_options.where))
        return super()._run(write)

    def _scan(self) -> DataScan:
        return to_scan(self._selected.table, self._source_options)


class ScanByOptions(ConnectorScan):
    """A scan of a `TableByOptions`."""

    def __init__(self, spark: SparkSession, scan: DataScan, query: PushedQuery) -> None:
        super().__init__(query)
        self._spark = spark
        self._scan = scan
        self._columns = self._struct.names

    @cached_property
    def _plan(self) -> ScanPlan:
        return self._scan.plan()

    @connector_method
    def description(self) -> str:
        """Return the text for EXPLAIN: the table and the filter."""
        return f"Icefloe {self._scan.table_name} [{self._scan.row_filter}]"

    @connector_method
    def rows(self) -> Any:
        """Return Spark's optimized logical plan of the rows."""
        rows = read(self._spark, self._scan.request(plan=self._plan))
        return rows.select(*map(quote_name, self._columns))._jdf.queryExecution().optimizedPlan()

    @connector_method
    def estimate_statistics(self) -> dict[str, Any]:
        """Return statistics for Spark's optimizer: the number of rows before deletes, and their estimated bytes."""
        rows = self._plan.records_before_deletes
        return statistics(rows, rows * _COLUMN_BYTES * (len(self._columns) + 1))


def _check_no_view(catalog: SparkCatalog, name: tuple[str, ...]) -> None:
    """Raise `InvalidInputError` if the name is a view, because Spark reads views only by their SQL name."""
    if catalog.catalog.keeps_views and len(name) > 1 and catalog.catalog.view_exists(name):
        full_name = ".".join((catalog.name, *name))
        raise InvalidInputError(f"{full_name} is a view, and a format reads and writes tables", next_step=f'spark.table("{full_name}")')


def _parts(spark: SparkSession, options: SourceOptions) -> list[str]:
    """Return the parts of a table's name, with the catalog if the options have one. Raises Spark's own error for an invalid name."""
    text = options.table or options.path or ""
    parser = spark._jsparkSession.sessionState().sqlParser()
    parts: list[str] = parser.parseMultipartIdentifier(text).mkString("\0").split("\0")
    return [options.catalog, *parts] if options.catalog else parts
