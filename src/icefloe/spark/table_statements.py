"""SQL statements that Python methods of a table run, such as `Table.update`. While one runs in Spark SQL, the table is in a temporary catalog."""

import logging
import uuid
from dataclasses import replace

from pyspark.errors import PySparkException

from icefloe.catalog.in_memory_catalog import InMemoryCatalog
from icefloe.errors import EngineError, IcefloeError, NoSuchTableError, in_one_line
from icefloe.operations.engine import Statement
from icefloe.operations.write_result import WriteResult
from icefloe.spark.attach_catalog import register
from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.bridge.messages import TableMessage, TableToLoad
from icefloe.spark.catalog.attached_catalogs import catalogs_of
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.runtime.start_session import session
from icefloe.spark.scan.spark_cache import recache
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.table.table import Table

LOG = logging.getLogger(__name__)
_CATALOG = "icefloe_statements"
# The loaded tables whose statements are running, by name.
_RUNNING: dict[str, SparkTable] = {}


class _Running(SparkCatalog):
    """The catalog that contains the tables whose statements are running."""

    @connector_method
    def load_table(self, request: TableToLoad) -> SparkTable:
        table = _RUNNING.get(request["table"][-1])
        if table is None:
            raise NoSuchTableError(f"no statement on {'.'.join(request['table'])} is running")
        return table

    @connector_method
    def table_exists(self, request: TableMessage) -> bool:
        return request["table"][-1] in _RUNNING


class _Target(SparkTable):
    """The table of a running statement.

    Its rows may be cached in Spark under the names that the table has in the session's attached catalogs, so that `recache` uses these names.
    """

    def recache(self) -> None:
        handle, branch = self._selected.table.handle, self._selected.branch
        for name, attached in catalogs_of(self._spark).items():
            if attached.catalog.name == handle.store.name:
                recache(self._spark, [name, *handle.identifier, *([] if branch is None else [f"branch_{branch}"])])


def run_statement(table: Table, statement: Statement) -> WriteResult:
    """Run and commit a SQL statement on a table, refresh the table object, and return the result. Raises the errors of `Table.update`."""
    # The session of the source is used, because another session may be active, which does not have the source's view.
    spark = session() if statement.source is None else statement.source.sparkSession
    name = f"t_{uuid.uuid4().hex}"
    register(spark, _CATALOG, _Running(spark, _CATALOG, InMemoryCatalog(_CATALOG)))
    selected = TableSelection(table=table.refresh(), branch=None if statement.branch == MAIN else statement.branch)
    target = _Target(spark, _CATALOG, selected)
    target.snapshot_properties = dict(statement.snapshot_properties)
    _RUNNING[name] = target
    source = f"icefloe_source_{name}"
    try:
        if statement.source is not None:
            statement.source.createOrReplaceTempView(source)
        spark.sql(statement.text.replace("{target}", f"{_CATALOG}.one.{name}", 1).replace("{source}", source, 1))
    except PySparkException as error:
        if isinstance(target.last_error, IcefloeError) and not isinstance(target.last_error, EngineError):
            raise target.last_error from error
        raise
    finally:
        del _RUNNING[name]
        if statement.source is not None:
            spark.catalog.dropTempView(source)
    try:
        table.refresh()
    except IcefloeError as error:
        if target.written is None:
            raise
        # The statement is committed: after an error, callers would run it again.
        LOG.warning("%s is changed, and cannot be loaded again (call refresh): %s", table.full_name, in_one_line(error.message))
    nothing = WriteResult(operation=statement.operation, engine="spark", snapshot_id=None, attempts=0)
    return nothing if target.written is None else replace(target.written, operation=statement.operation)
