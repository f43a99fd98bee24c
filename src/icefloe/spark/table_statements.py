"""Statements that Python tells about one table, run through Spark SQL: the table is attached alone, for as long as its statement runs."""

import uuid
from dataclasses import replace

from pyspark.errors import PySparkException

from icefloe.catalog.in_memory_catalog import InMemoryCatalog
from icefloe.errors import EngineError, IcefloeError, NoSuchTableError
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.spark.attach_catalog import register
from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.bridge.messages import TableMessage, TableToLoad
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.runtime.start_session import session
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.table.engine import Statement
from icefloe.table.table import Table
from icefloe.table.write_result import WriteResult

_CATALOG = "icefloe_statements"
# Loaded tables by the name they have while their statement runs.
_RUNNING: dict[str, SparkTable] = {}


class _Running(SparkCatalog):
    """The tables of the statements that run."""

    @connector_method
    def load_table(self, request: TableToLoad) -> SparkTable:
        found = _RUNNING.get(request["table"][-1])
        if found is None:
            raise NoSuchTableError(f"no statement about {'.'.join(request['table'])} runs")
        return found

    @connector_method
    def table_exists(self, request: TableMessage) -> bool:
        return request["table"][-1] in _RUNNING


def run_statement(table: Table, statement: Statement) -> WriteResult:
    """Runs it and commits. The table object holds what was committed afterwards. Raises as `Table.update`."""
    spark, name = session(), f"t_{uuid.uuid4().hex}"
    register(spark, _CATALOG, _Running(spark, _CATALOG, InMemoryCatalog(_CATALOG)))
    selected = TableSelection(table=table.refresh(), branch=None if statement.branch == MAIN else statement.branch)
    answers = SparkTable(spark, _CATALOG, selected)
    answers.snapshot_properties = dict(statement.snapshot_properties)
    _RUNNING[name] = answers
    source = f"icefloe_source_{name}"
    try:
        if statement.source is not None:
            statement.source.createOrReplaceTempView(source)
        spark.sql(statement.text.replace("{target}", f"{_CATALOG}.one.{name}", 1).replace("{source}", source, 1))
    except PySparkException as error:
        if isinstance(answers.last_error, IcefloeError) and not isinstance(answers.last_error, EngineError):
            raise answers.last_error from error
        raise
    finally:
        del _RUNNING[name]
        if statement.source is not None:
            spark.catalog.dropTempView(source)
    table.refresh()
    nothing = WriteResult(operation=statement.operation, engine="spark", snapshot_id=None, attempts=0)
    return nothing if answers.written is None else replace(answers.written, operation=statement.operation)
