"""The fixture `sql`: each test has an Icefloe catalog of its own, attached to the shared session as `lake`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from icefloe import SqlCatalog
from icefloe.spark.attach_catalog import attach
from icefloe.spark.bridge.gateway import java_class
from icefloe.spark.types.spark_types import struct_to_schema
from icefloe.spec.schema.arrow_schema import schema_to_arrow

Run = Callable[[str], list[tuple[Any, ...]]]
InsertOfSome = Callable[[str, str], None]


@pytest.fixture
def sql(spark: SparkSession, lake: SqlCatalog) -> Run:
    """Run a statement and return its rows as tuples."""
    attach(spark, "lake", lake)
    return lambda text: [tuple(row) for row in spark.sql(text).collect()]


@pytest.fixture(autouse=True)
def active_session_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make the shared session the active one again: a test with its own session leaves that one active, and Spark loads catalogs by its settings."""
    yield
    if "spark" in request.fixturenames:
        shared = request.getfixturevalue("spark")
        # As the first lines of `createDataFrame` do, without a frame after each test.
        SparkSession._activeSession = shared
        java_class(shared, "org.apache.spark.sql.classic.SparkSession").setActiveSession(shared._jsparkSession)


@pytest.fixture
def no_temporary_views(spark: SparkSession) -> None:
    """Drop the temporary views that other tests left in the shared session, because SHOW VIEWS lists them."""
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)


@pytest.fixture
def insert_of_some(spark: SparkSession, sql: Run) -> InsertOfSome:
    """Run an INSERT that leaves columns out. Spark 4.0 refuses it, because its rule for writes adds no defaults; the second statement names all columns."""

    def insert(some: str, every: str) -> None:
        if spark.version >= "4.1":
            sql(some)
            return
        with pytest.raises(AnalysisException, match="CANNOT_FIND_DATA"):
            sql(some)
        sql(every)

    return insert


def create(lake: SqlCatalog, columns: str, name: str = "db.t", *, partition: Sequence[str] = (), **properties: str) -> None:
    """Create a table with columns of Spark's DDL in this process, which is quicker than CREATE TABLE; `format_version` is the property `format-version`."""
    named = {key.replace("_", "-"): value for key, value in properties.items()}
    lake.create_table(name, struct_to_schema(StructType.fromDDL(columns)), partition_spec=partition, properties=named)


def append(lake: SqlCatalog, rows: Iterable[tuple[Any, ...]], name: str = "db.t") -> None:
    """Append rows to a table in this process, which is quicker than an INSERT."""
    table = lake.load_table(name)
    schema = schema_to_arrow(table.schema())
    columns = zip(*rows, strict=True)
    table.append(pa.table([pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema))


def stored(lake: SqlCatalog, *columns: str, name: str = "db.t") -> list[tuple[Any, ...]]:
    """Return columns of all rows as this process reads them, sorted, nulls first."""
    rows = [tuple(row[column] for column in columns) for row in lake.load_table(name).scan().select(*columns).to_arrow().to_pylist()]
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])
