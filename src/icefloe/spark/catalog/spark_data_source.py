"""`SparkDataSource`: which table `spark.read.format("icefloe")` and `df.write.format("icefloe")` mean by their options, in a classic session.

A table of an attached catalog is the one that its name means in SQL. Others are in a hidden catalog, whose names are the options: tables by their location,
of catalogs that were not attached, and reads with the options `columns` and `where`. The Java side is `bridge/java/DefaultSource.java`.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import InvalidInputError, NoSuchCatalogError, NotFoundError, UnsupportedFeatureError
from icefloe.inspect.metadata_tables.metadata_table_registry import METADATA_TABLES
from icefloe.kernel.expressions.filter_parser import to_expression
from icefloe.kernel.scan.scan_planner import ScanPlan
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.gateway import jvm_of
from icefloe.spark.bridge.java_compiler import offer_formats, static_method
from icefloe.spark.bridge.optimizer_rule import install_rule
from icefloe.spark.catalog.attached_catalogs import PREFIX, found_in
from icefloe.spark.catalog.changelog_table import CHANGES, ChangelogTable
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.catalog.spark_metadata_table import SparkMetadataTable
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.connect.connect_options import SPARK_POINTS, Asked, Known, asked_for, is_location, opened, scan_of
from icefloe.spark.connect.register import told_to
from icefloe.spark.runtime.named_sessions import OPTION, give_name, session_named
from icefloe.spark.scan.filter_pushdown import pruning_filter
from icefloe.spark.scan.function_pushdown import LocalDays
from icefloe.spark.scan.planned_rows import read
from icefloe.spark.scan.read_options import PushedQuery
from icefloe.spark.scan.scan_builder import ConnectorScan, ReadableTable, statistics
from icefloe.spark.scan.table_selector import TableSelection, at_timestamp, at_version
from icefloe.spark.types.spark_types import quoted, schema_to_struct
from icefloe.spark.write.sql_write import Write
from icefloe.table.data_scan import DataScan
from icefloe.table.static_table import StaticTable
from icefloe.table.table import Table

HIDDEN = "icefloe_format"
_ANSWERS = "formats"  # under which Java finds them
_COLUMN_BYTES = 16  # what a value is taken for; Spark's own scan, which comes in its place, knows better


def offer(spark: SparkSession, catalog_class: str) -> None:
    """Makes the formats known to Spark: `icefloe`, and `iceberg` where Java's is not there. All sessions of the JVM see them; a second time changes nothing."""
    static_method(spark, "PythonBridge", "register", _ANSWERS, SparkDataSource(catalog_class))
    offer_formats(spark)
    give_name(spark)


class SparkDataSource(PythonCallback):
    """For all sessions of a JVM."""

    def __init__(self, catalog_class: str) -> None:
        self._catalog_class = catalog_class

    @connector_method
    def table(self, options: dict[str, str], active: Any) -> list[str]:
        """The catalog's name and the table's within it. `active` is the session that Spark has for active, which may be another than the one that asks."""
        spark = session_named(options.pop(OPTION, None)) or SparkSession(SparkContext.getOrCreate(), active)
        if not spark._jsparkSession.equals(active):
            # Spark loads catalogs by the settings of the active session, whichever reads. `createDataFrame` makes its session the active one too.
            jvm_of(spark).org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
        asked = asked_for(
            {name: value for name, value in options.items() if name.lower() not in SPARK_POINTS}
        )  # Spark says those when it loads
        if not is_location(asked.path or "") and asked.columns == ("*",) and asked.where is None:
            found = found_in(spark, _parts(spark, asked))
            if found is not None:
                _check_no_view(*found)
                return [found[0].name, *found[1]]
        self._show_hidden(spark)
        kept = {name: value for name, value in options.items() if not is_location(asked.path or "") or name.lower() not in SPARK_POINTS}
        return [HIDDEN, json.dumps(kept)]

    def _show_hidden(self, spark: SparkSession) -> None:
        install_rule(spark)
        setting = f"{PREFIX}{HIDDEN}"
        if spark.conf.get(setting, None) is not None:
            return
        key = str(uuid.uuid4())
        answers = HiddenCatalog(spark)
        static_method(spark, "PythonBridge", "register", key, answers)
        spark.conf.set(f"{setting}.icefloe", key)
        spark.conf.set(setting, self._catalog_class)


class HiddenCatalog(PythonCallback):
    """The catalog of tables that options say, for one session. A name is the options as JSON."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @connector_method
    def load_table(self, given: dict[str, Any]) -> "TableByOptions | SparkMetadataTable":
        asked = asked_for(json.loads(given["table"][-1]))
        of_location = is_location(asked.path or "")
        folder, _, part = (asked.path or "").rpartition("#")
        if of_location and part.lower() in METADATA_TABLES:
            given["table"] = [asked.path]
            return self._metadata_table(replace(asked, path=folder), part.lower(), given)
        name = [asked.path or ""] if of_location else _parts(self._spark, asked)
        given["table"] = list(name)  # Spark's own errors say it
        found = None if of_location else found_in(self._spark, name)
        known = told_to(self._spark._jsparkSession)
        try:
            table = self._opened(asked, known) if found is None else found[0].catalog.load_table(found[1])
        except NoSuchCatalogError as error:
            raise NoSuchCatalogError(
                f"this session has no catalog {name[0]!r}, and it is not configured elsewhere",
                next_step=f'attach it: icefloe.spark.attach(spark, "{name[0]}", catalog)',
            ) from error
        at = _at(asked, table, given)
        if at.is_part:
            asked = replace(asked, snapshot_id=at.snapshot_id, branch=at.branch, tag=at.tag, as_of_ms=at.as_of_ms)
        return TableByOptions(self._spark, table, asked)

    def _metadata_table(self, asked: Asked, name: str, given: Mapping[str, Any]) -> SparkMetadataTable:
        """Return a metadata table of a table by its folder, as Java names it: `/folder/of/table#files`."""
        if asked.columns != ("*",) or asked.where is not None:
            raise InvalidInputError(
                f"the options columns and where are for a table's own rows, not for {asked.path}#{name}",
                next_step="select and filter the DataFrame",
            )
        table = self._opened(asked, told_to(self._spark._jsparkSession))
        selected = replace(_at(asked, table, given), metadata_table=name)
        kind = ChangelogTable if name == CHANGES else SparkMetadataTable
        return kind(self._spark, "path", selected, name)

    @staticmethod
    def _opened(asked: Asked, known: Known) -> Table | StaticTable:
        """Return the table: one that a folder holds takes writes too."""
        is_folder = asked.storage is None and is_location(asked.path or "") and not (asked.path or "").endswith(".json")
        return FileSystemCatalog.table_at(asked.path or "", asked.properties) if is_folder else opened(asked, known)

    @connector_method
    def table_exists(self, given: dict[str, Any]) -> bool:
        """Whether a folder holds the table. Raises `UnsupportedFeatureError` for any other: Spark asks this to make it."""
        asked = asked_for(json.loads(given["table"][-1]))
        with suppress(InvalidInputError, NotFoundError):
            if is_location(asked.path or ""):
                given["table"] = [asked.path]  # Spark's own errors say it
                self._opened(asked, told_to(self._spark._jsparkSession))
                return True
        return self.create_table(given)

    @connector_method
    def create_table(self, _: Any) -> bool:
        raise UnsupportedFeatureError(
            "only a table of an attached catalog is made by format(...).save(...)",
            next_step='attach its catalog: icefloe.spark.attach(spark, name, catalog); or write with mode("append") or mode("overwrite") to a table',
        )

    stage_table = create_table


def _at(asked: Asked, table: Table | StaticTable, given: Mapping[str, Any]) -> TableSelection:
    """Return the version or time that Spark asks for, as by its options versionAsOf and timestampAsOf. Raises `InvalidInputError` beside another one."""
    selected = TableSelection(table=table)  # type: ignore[arg-type]  # both are read alike
    version, micros = given.get("version"), given.get("timestamp")
    if version is None and micros is None:
        return selected
    if any(point is not None for point in (asked.snapshot_id, asked.branch, asked.tag, asked.as_of_ms)):
        raise InvalidInputError(
            f"{table.full_name} is read as of a version or a time and by another option that says which snapshot",
            next_step="give one of versionAsOf, timestampAsOf, snapshot-id, branch, tag and as-of-timestamp",
        )
    return at_version(selected, version) if version is not None else at_timestamp(selected, int(micros or 0))


class TableByOptions(SparkTable):
    """A table, or the rows and columns of it that options ask for. One that is opened by a metadata file is read-only, as its writes say."""

    prunes_nested = False

    def __init__(self, spark: SparkSession, table: Table | StaticTable, asked: Asked) -> None:
        super().__init__(spark, "", TableSelection(table=table))  # type: ignore[arg-type]  # both are read alike
        self._asked = asked

    def name(self) -> str:
        return self._selected.table.full_name

    def parts(self) -> Sequence[str]:
        return ()

    def identity(self) -> str:
        """Of the table's state and the options."""
        return f"{super().identity()} {self._asked.where} {self._asked.columns}"

    def says(self) -> Mapping[str, Any]:
        return {**super().says(), "metadataColumns": []}

    @cached_property
    def _schema_json(self) -> str:
        scan = self._scan()
        return schema_to_struct(scan.as_held(scan.projection()), field_ids=False).json()

    def filters(self, wanted: PushedQuery) -> list[bool]:
        return ReadableTable.filters(self, wanted)

    def aggregate(self, _: PushedQuery) -> str | None:
        return None

    def scan(self, asked: PushedQuery) -> "ScanByOptions":
        found = self._scan()
        pushed = pruning_filter(asked.get("filters") or (), found.schema(), LocalDays(self._spark, asked["zone"]))
        return ScanByOptions(self._spark, found.filter(pushed), asked)

    def _run(self, write: Write) -> None:
        if self._asked.where is not None:  # which rows are replaced
            if write.overwrite_filter is None or write.options.overwrites_partitions:
                raise InvalidInputError(
                    "the option where says which rows a write replaces",
                    next_step='leave it out, or write with mode("overwrite") and without the overwrite-mode dynamic',
                )
            write = replace(write, overwrite_filter=to_expression(self._asked.where))
        super()._run(write)

    def _scan(self) -> DataScan:
        return scan_of(self._selected.table, self._asked)


class ScanByOptions(ConnectorScan):
    """One read of such a table."""

    def __init__(self, spark: SparkSession, scan: DataScan, asked: PushedQuery) -> None:
        super().__init__(asked)
        self._spark = spark
        self._scan = scan
        self._columns = self._struct.names

    @cached_property
    def _plan(self) -> ScanPlan:
        return self._scan.plan()

    @connector_method
    def description(self) -> str:
        return f"Icefloe {self._scan.table_name} [{self._scan.row_filter}]"

    @connector_method
    def rows(self) -> Any:
        rows = read(self._spark, self._scan.request(plan=self._plan))
        return rows.select(*map(quoted, self._columns))._jdf.queryExecution().optimizedPlan()

    @connector_method
    def estimate_statistics(self) -> dict[str, Any]:
        rows = self._plan.records_before_deletes
        return statistics(rows, rows * _COLUMN_BYTES * (len(self._columns) + 1))


def _check_no_view(answers: SparkCatalog, name: tuple[str, ...]) -> None:
    """Check that a name is no view's: Spark reads the query of a view by its name alone, not by a format. Raises `InvalidInputError`."""
    if answers.catalog.keeps_views and len(name) > 1 and answers.catalog.view_exists(name):
        full_name = ".".join((answers.name, *name))
        raise InvalidInputError(f"{full_name} is a view, and a format reads and writes tables", next_step=f'spark.table("{full_name}")')


def _parts(spark: SparkSession, asked: Asked) -> list[str]:
    """The parts of a table's name, its catalog first where one is named. Raises Spark's own error for a text that is no name."""
    text = asked.table or asked.path or ""
    parser = spark._jsparkSession.sessionState().sqlParser()
    parts: list[str] = parser.parseMultipartIdentifier(text).mkString("\0").split("\0")
    return [asked.catalog, *parts] if asked.catalog else parts
