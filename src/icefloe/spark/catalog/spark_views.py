"""Views in Spark SQL: a view is returned as Spark's own relation for views, so that Spark's analyzer resolves its query.

The query is resolved with the catalog and namespace of the view, without temporary views and functions. Errors in the query are Spark's own, and contain the
view's name. `statements/view_statements.py` creates and changes views; `bridge/java/SparkViews.java` is the Java side. Spec: View spec, View Metadata.
"""

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from icefloe.errors import UnsupportedFeatureError
from icefloe.spark.bridge.gateway import static_method
from icefloe.spark.types.spark_types import quote_name, schema_to_struct, with_geo_types
from icefloe.view.view import View

DIALECT = "spark"
# View property with the names of the query's columns at creation, separated by commas, as in Java's Iceberg.
QUERY_COLUMNS = "spark.query-column-names"


def relation_of(spark: SparkSession, catalog_name: str, view: View) -> Any:
    """Return Spark's relation for a view. The query's columns are matched with the view's by the names in `query_columns`; if it is empty, by position.

    Raises:
        UnsupportedFeatureError: the view has no query in Spark's SQL, or its query does more than read tables.
    """
    version = view.current_version()
    query = query_of(view)
    check_query(spark, view.full_name, query)
    columns = query_columns(view)
    names = ", ".join(quote_name(name) for name in view.schema().names)
    definition = _definition(
        name=(catalog_name, *view.name()),
        query=query,
        default_namespace=(version.default_catalog or catalog_name, *version.default_namespace),
        schema=with_geo_types(spark, schema_to_struct(view.schema(), field_ids=False), view.schema()),
        columns=columns or None,
        alias=None if columns else f"{quote_name(view.name()[-1])} ({names})",
    )
    return static_method(spark, "SparkViews", "table", spark._jsparkSession.sessionState(), definition)


def analyzed_query(spark: SparkSession, name: Sequence[str], query: str, default_namespace: Sequence[str]) -> Any:
    """Return Spark's analyzed plan of a query, resolved as the query of the view `name`. Raises Spark's own errors.

    Args:
        spark: the session.
        name: the view's name, with its catalog.
        query: the query's text.
        default_namespace: the catalog and namespace for names in the query without a catalog or namespace.
    """
    definition = _definition(name=name, query=query, default_namespace=default_namespace, schema=StructType())
    return static_method(spark, "SparkViews", "plan", spark._jsparkSession.sessionState(), definition)


def check_query(spark: SparkSession, name: str, query: str) -> None:
    """Refuse a view whose query does more than read tables, for example calls Java methods, because another user may have written it.

    Raises:
        UnsupportedFeatureError: the query does more than read tables; the error lists each such part of it.
    """
    parts = json.loads(static_method(spark, "ViewQueries", "code", spark._jsparkSession.sessionState(), query))
    if parts:
        raise UnsupportedFeatureError(
            f"the query of view {name} does more than read tables: {', '.join(parts)}",
            next_step="read the query, and run it yourself where you trust it",
        )


def query_of(view: View) -> str:
    """Return the query of a view in Spark's SQL dialect. Raises `UnsupportedFeatureError` if the view has no query in this dialect."""
    representation = view.sql_for(DIALECT)
    if representation is None or representation.dialect.lower() != DIALECT:
        raise UnsupportedFeatureError(
            f"view {view.full_name} has no query in Spark's SQL"
            + (f", only in the dialect {representation.dialect}" if representation else ""),
            next_step="add one with CREATE OR REPLACE VIEW",
        )
    return representation.sql.rstrip().rstrip(";")  # Spark accepts a semicolon after a statement, but not after a query


def query_columns(view: View) -> list[str]:
    """Return the names that the query's columns had when the view was created; empty if unknown, for example if the view was not created by SQL."""
    names = view.properties.get(QUERY_COLUMNS, "")
    columns = names.split(",") if names else []
    return columns if len(columns) == len(view.schema().fields) else []


def _definition(
    *,
    name: Sequence[str],
    query: str,
    default_namespace: Sequence[str],
    schema: StructType,
    columns: Sequence[str] | None = None,
    alias: str | None = None,
) -> str:
    return json.dumps(
        {"name": name, "query": query, "place": default_namespace, "schema": schema.json(), "columns": columns, "alias": alias}
    )
