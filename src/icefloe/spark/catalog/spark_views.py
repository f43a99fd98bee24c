"""Views as Spark SQL reads them: a catalog returns Spark's own definition of a view, and Spark's analyzer resolves its query.

The query is resolved in the catalog and namespace that the view names and sees nothing temporary; errors in it are Spark's, and name the view.
What makes and changes views is `view_statements.py`; the Java side is `bridge/java/SparkViews.java`. Spec: View spec, View Metadata.
"""

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from icefloe.errors import UnsupportedFeatureError
from icefloe.spark.bridge.java_compiler import static_method
from icefloe.spark.types.geo_types import with_geo_types
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.view.view import View

DIALECT = "spark"
# Names of the query's columns when the view was made, with commas between them, as Java's Spark writes them.
QUERY_COLUMNS = "spark.query-column-names"


def relation_of(spark: SparkSession, catalog_name: str, view: View) -> Any:
    """Return the relation of a view, an object of Spark's. Columns are matched by `query_columns`, else by position.

    Raises:
        UnsupportedFeatureError: the view has no query in Spark's SQL, or one that does more than read tables.
    """
    version = view.current_version()
    query = query_of(view)
    check_query(spark, view.full_name, query)
    columns = query_columns(view)
    names = ", ".join(_in_backticks(name) for name in view.schema().names)
    definition = _definition(
        name=(catalog_name, *view.name()),
        query=query,
        place=(version.default_catalog or catalog_name, *version.default_namespace),
        schema=with_geo_types(spark, schema_to_struct(view.schema(), field_ids=False), view.schema()),
        columns=columns or None,
        alias=None if columns else f"{_in_backticks(view.name()[-1])} ({names})",
    )
    return static_method(spark, "SparkViews", "table", spark._jsparkSession.sessionState(), definition)


def analyzed_query(spark: SparkSession, name: Sequence[str], query: str, place: Sequence[str]) -> Any:
    """Return Spark's analyzed plan of a query as the view `name` would read it, in a catalog and namespace. Raises Spark's own errors."""
    definition = _definition(name=name, query=query, place=place, schema=StructType())
    return static_method(spark, "SparkViews", "plan", spark._jsparkSession.sessionState(), definition)


def check_query(spark: SparkSession, name: str, query: str) -> None:
    """Check that a view's query reads tables alone, and runs no commands and no methods of Java: others may have written it.

    Raises:
        UnsupportedFeatureError: it does; every such part is named.
    """
    found = json.loads(static_method(spark, "ViewQueries", "code", spark._jsparkSession.sessionState(), query))
    if found:
        raise UnsupportedFeatureError(
            f"the query of view {name} does more than read tables: {', '.join(found)}",
            next_step="read the query, and run it yourself where you trust it",
        )


def query_of(view: View) -> str:
    """Return the view's query in Spark's SQL. Raises `UnsupportedFeatureError` where it has none."""
    found = view.sql_for(DIALECT)
    if found is None or found.dialect.lower() != DIALECT:
        raise UnsupportedFeatureError(
            f"view {view.full_name} has no query in Spark's SQL" + (f", only in that of {found.dialect}" if found else ""),
            next_step="give it one, with CREATE OR REPLACE VIEW",
        )
    return found.sql.rstrip().rstrip(";")  # Spark takes one of a statement, and not of a query


def query_columns(view: View) -> list[str]:
    """Return the names of the query's columns when the view was made; empty where they are unknown, as for views that no SQL statement made."""
    names = view.properties.get(QUERY_COLUMNS, "")
    found = names.split(",") if names else []
    return found if len(found) == len(view.schema().fields) else []


def _in_backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _definition(
    *,
    name: Sequence[str],
    query: str,
    place: Sequence[str],
    schema: StructType,
    columns: Sequence[str] | None = None,
    alias: str | None = None,
) -> str:
    return json.dumps({"name": name, "query": query, "place": place, "schema": schema.json(), "columns": columns, "alias": alias})
