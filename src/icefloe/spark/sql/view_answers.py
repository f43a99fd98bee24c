"""`ViewAnswers`: a view as Spark SQL reads it: the rows are those of its query, run with the catalog and namespace that the view names.

What makes and changes views is `view_statements.py`. Floor: spark. Spec: View spec, View Metadata.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import and_
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from icefloe.errors import IcefloeError, InvalidInputError, UnsupportedFeatureError
from icefloe.kernel.expressions.bind import bind
from icefloe.spark.filters import column_named, filter_to_column, quoted
from icefloe.spark.jvm.gateway import java_array, jvm_of
from icefloe.spark.sql.answers import answer
from icefloe.spark.sql.local_days import LocalDays
from icefloe.spark.sql.pushed_filters import expressions_of
from icefloe.spark.sql.read_answers import OneScanAnswers, ReadAnswers, Wanted, statistics
from icefloe.spark.types import schema_to_struct
from icefloe.view.view import View

DIALECT = "spark"
# The property that says what the query's columns were called when the view was made, as Java's Spark writes it, with commas between them.
QUERY_COLUMNS = "spark.query-column-names"
# What Spark takes a row of a query for of which nothing is known.
_UNKNOWN_ROWS = 1 << 20
_LOADED = threading.local()


@contextmanager
def loaded_views() -> Iterator[dict[str, tuple[str, View]]]:
    """The views that this thread has Spark load meanwhile, by their names in SQL, each with its catalog's name."""
    before = getattr(_LOADED, "views", None)
    found: dict[str, tuple[str, View]] = {}
    _LOADED.views = found
    try:
        yield found
    finally:
        _LOADED.views = before


class ViewAnswers(ReadAnswers):
    """Reads alone."""

    def __init__(self, spark: SparkSession, catalog_name: str, view: View) -> None:
        self._spark = spark
        self._catalog_name = catalog_name
        self._view = view
        views = getattr(_LOADED, "views", None)
        if views is not None:
            views[self._name()] = catalog_name, view

    def identity(self) -> str:
        """Of the view's state."""
        return f"{self._name()} {self._view.metadata_location}"

    def says(self) -> Mapping[str, Any]:
        view = self._view
        return {
            "name": self._name(),
            "toString": self._name(),
            "schema": self.schema_json(),
            "properties": {**shown_properties(view), "provider": "iceberg", "location": view.location(), "view-query": query_of(view)},
            "capabilities": ["BATCH_READ"],
        }

    def _name(self) -> str:
        return f"{self._catalog_name}.{'.'.join(self._view.name())}"

    def schema_json(self) -> str:
        return schema_to_struct(self._view.schema(), field_ids=False).json()

    def scan(self, asked: Wanted) -> "ViewScanAnswers":
        return ViewScanAnswers(self._spark, self._catalog_name, self._view, asked)


class ViewScanAnswers(OneScanAnswers):
    """One read of a view. Filters and columns go into its query, so that the tables below it are planned with them."""

    def __init__(self, spark: SparkSession, catalog_name: str, view: View, asked: Wanted) -> None:
        super().__init__(asked)
        self._spark = spark
        self._catalog_name = catalog_name
        self._view = view
        self._columns = self._struct.names
        schema = view.schema()
        said = expressions_of(asked.get("filters") or (), schema, LocalDays(spark, asked["zone"]))
        self._filters = [bind(found, schema) for found in said if found is not None]

    @answer
    def description(self) -> str:
        return f"Icefloe view {self._view.full_name} [{', '.join(map(str, self._filters))}]"

    @answer
    def rows(self) -> Any:
        found = rows_of(self._spark, self._catalog_name, self._view)
        if self._filters:
            found = found.where(reduce(and_, map(filter_to_column, self._filters)))
        return found.select(*map(quoted, self._columns))._jdf.queryExecution().optimizedPlan()

    @answer
    def estimate_statistics(self) -> dict[str, Any]:
        return statistics(_UNKNOWN_ROWS, _UNKNOWN_ROWS * _UNKNOWN_ROWS)


def query_of(view: View) -> str:
    """The view's query in Spark's SQL. Raises `UnsupportedFeatureError` where it has none."""
    found = view.sql_for(DIALECT)
    if found is None or found.dialect.lower() != DIALECT:
        raise UnsupportedFeatureError(
            f"view {view.full_name} has no query in Spark's SQL" + (f", only in that of {found.dialect}" if found else ""),
            next_step="give it one, with CREATE OR REPLACE VIEW or view.replace_version()",
        )
    return found.sql


def shown_properties(view: View) -> dict[str, str]:
    """The view's properties without the one that is for readers alone."""
    return {key: value for key, value in view.properties.items() if key != QUERY_COLUMNS}


def _columns_of(found: DataFrame, view: View) -> DataFrame:
    """The query's columns that the view was made of, in its order: by their names, since tables may have more or others by now, else by their places."""
    wanted = view.schema().names
    made_of = view.properties.get(QUERY_COLUMNS, "").split(",")
    is_known = len(made_of) == len(wanted)
    names = made_of if is_known else wanted
    if all(found.columns.count(name) == 1 for name in names):
        return found.select(*map(quoted, names))
    is_gone = is_known and not set(names) <= set(found.columns)
    if is_gone or len(found.columns) != len(wanted):
        raise InvalidInputError(
            f"the query of view {view.full_name} gives the columns {', '.join(found.columns)}, and the view was made of {', '.join(names)}",
            next_step="replace the view",
        )
    return found


def rows_of(spark: SparkSession, catalog_name: str, view: View) -> DataFrame:
    """The rows of the view's query under the view's names and in its types.

    Raises:
        InvalidInputError: the query does not run any more, or gives other columns; the message says so and names the view.
    """
    version = view.current_version()
    inner = session_at(spark, version.default_catalog or catalog_name, version.default_namespace)
    try:
        found = inner.sql(query_of(view))
    except PySparkException as error:
        raise InvalidInputError(
            f"the query of view {view.full_name} fails: {str(error).splitlines()[0]}",
            next_step="see SHOW CREATE TABLE of the view, and replace it",
        ) from error
    wanted = schema_to_struct(view.schema(), field_ids=False)
    plain = _columns_of(found, view).toDF(*wanted.names)
    return DataFrame(
        plain.select(*(column_named(field.name).cast(field.dataType).alias(field.name) for field in wanted.fields))._jdf, spark
    )


def session_at(spark: SparkSession, catalog: str, namespace: tuple[str, ...]) -> SparkSession:
    """A session of its own with the same settings and catalogs, at another current catalog and namespace: temporary views are not seen there.

    Raises `InvalidInputError` where there is no such place.
    """
    inner = spark.newSession()
    settings = spark._jsparkSession.sessionState().conf().getAllConfs()
    mutable = inner._jsparkSession.sessionState().conf()
    mutable.setConf(_properties(spark, settings))
    experimental = spark._jsparkSession.experimental()
    getattr(inner._jsparkSession.experimental(), "extraOptimizations_$eq")(experimental.extraOptimizations())
    try:
        inner.catalog.setCurrentCatalog(catalog)
        if namespace:
            inner._jsparkSession.sessionState().catalogManager().setCurrentNamespace(java_array(spark, "java.lang.String", namespace))
    except (PySparkException, IcefloeError) as error:
        raise InvalidInputError(
            f"there is no {catalog}.{'.'.join(namespace)} in this session: {str(error).splitlines()[0]}",
            next_step=f"call icefloe.spark.attach(spark, {catalog!r}, ...)",
        ) from error
    return inner


def _properties(spark: SparkSession, settings: Any) -> Any:
    found = jvm_of(spark).java.util.Properties()
    entries = settings.iterator()
    while entries.hasNext():
        entry = entries.next()
        found.setProperty(entry._1(), entry._2())
    return found
