"""Statements that describe views of attached catalogs, with the same rows as Java's Iceberg: SHOW VIEWS, SHOW CREATE TABLE, SHOW TBLPROPERTIES, DESCRIBE.

Spark parses these statements, but runs them only for views of its session catalog. `view_statements.py` changes views. Spec: View spec, View Metadata.
"""

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import SparkSession

from icefloe.spark.bridge.gateway import jvm_of
from icefloe.spark.catalog.attached_catalogs import attached_catalog, current_namespace, is_catalog
from icefloe.spark.catalog.spark_views import QUERY_COLUMNS, query_columns, query_of
from icefloe.spark.statements.view_statements import Place, Rows, ViewStatement, view_place
from icefloe.spark.types.spark_types import COMMENT_KEY, schema_to_struct
from icefloe.spec.metadata.sort_keys import quote_name
from icefloe.spec.sql_tokens import Tokens
from icefloe.view.view import View

# Properties that Spark sets, and shows elsewhere.
_NOT_SHOWN = frozenset({"comment", "owner", "create_engine_version", "engine_version", QUERY_COLUMNS})


def shown_view(spark: SparkSession, text: str) -> ViewStatement | None:
    """Parse a statement that describes views. Return None for other statements and for views of other catalogs. Raises `StatementSyntaxError`."""
    tokens = Tokens(text)
    for words, parse in _STATEMENTS:
        if tokens.take(*words):
            return parse(spark, tokens)
    return None


def shown_properties(view: View) -> dict[str, str]:
    """Return the properties of a view that statements show, by name: its own, and its format version, location and provider."""
    parts = {"format-version": str(view.metadata.format_version), "location": view.location(), "provider": "iceberg"}
    return dict(sorted({**parts, **{key: value for key, value in view.properties.items() if key not in _NOT_SHOWN}}.items()))


# ---- lists of views ----


def _show_views(spark: SparkSession, tokens: Tokens) -> ViewStatement | None:
    current, namespace = current_namespace(spark)
    spark_catalog = attached_catalog(spark, current)
    if tokens.take("FROM") or tokens.take("IN"):
        parts = tokens.dotted_name()
        named_catalog = attached_catalog(spark, parts[0])
        if named_catalog is None and is_catalog(spark, parts[0]):
            return None
        spark_catalog, namespace = (named_catalog, parts[1:]) if named_catalog is not None else (spark_catalog, parts)
    if spark_catalog is None or spark_catalog.is_session_catalog:
        return None
    tokens.take("LIKE")
    pattern = "*" if tokens.at_end else tokens.string()
    tokens.end()
    catalog = spark_catalog.catalog

    def run() -> Rows:
        state = spark._jsparkSession.sessionState()
        temporary_views = state.catalog()
        global_database = state.conf().globalTempDatabase()
        if namespace[:1] == (global_database,):
            view_names = temporary_views.globalTempViewManager().listViewNames(pattern)
            rows = [(global_database, name, True) for name in _members(view_names)]
        else:
            names = [name[-1] for name in catalog.list_views(namespace)] if namespace else []
            rows = [(".".join(map(quote_name, namespace)), name, False) for name in _matching(spark, names, pattern)]
        return [*rows, *(("", name.table(), True) for name in _members(temporary_views.listLocalTempViews(pattern)))]

    return ViewStatement(name=(*namespace, "*"), run=run, names=("namespace", "viewName", "isTemporary"))


def _matching(spark: SparkSession, names: Iterable[str], pattern: str) -> list[str]:
    """Return those names that match a pattern in Spark's syntax, in the order in which Spark returns them."""
    jvm = jvm_of(spark)
    name_list = jvm.java.util.ArrayList()
    for name in names:
        name_list.add(name)
    sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq(name_list)
    return _members(jvm.org.apache.spark.sql.catalyst.util.StringUtils.filterPattern(sequence, pattern))


def _members(sequence: Any) -> list[Any]:
    """Return the members of a Scala sequence as a list."""
    iterator, members = sequence.iterator(), []
    while iterator.hasNext():
        members.append(iterator.next())
    return members


# ---- one view ----


def _of_view(spark: SparkSession, tokens: Tokens) -> Place | None:
    """Parse a name, and return the catalog and name of the view; None if it is not a view of an attached catalog."""
    place = view_place(spark, tokens)
    if place is None or len(place[1]) < 2 or not place[0].catalog.keeps_views or not place[0].catalog.view_exists(place[1]):
        return None
    return place


def _show_create(spark: SparkSession, tokens: Tokens) -> ViewStatement | None:
    place = _of_view(spark, tokens)
    if place is None or not tokens.at_end:
        return None
    return _rows_of(place, lambda view: [(_create_statement(place[0].name, view),)], "createtab_stmt")


def _create_statement(catalog_name: str, view: View) -> str:
    columns = ",\n  ".join(
        quote_name(field.name) + (f" COMMENT {_literal(field.doc)}" if field.doc else "") for field in view.schema().fields
    )
    lines = [f"CREATE VIEW {_quoted_name(catalog_name, view)} (\n  {columns})"]
    if "comment" in view.properties:
        lines.append(f"COMMENT {_literal(view.properties['comment'])}")
    pairs = ",\n  ".join(f"{_literal(key)} = {_literal(value)}" for key, value in shown_properties(view).items())
    return "\n".join([*lines, f"TBLPROPERTIES (\n  {pairs})", f"AS\n{query_of(view)}\n"])


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted_name(catalog_name: str, view: View) -> str:
    return ".".join(map(quote_name, (catalog_name, *view.name())))


def _show_properties(spark: SparkSession, tokens: Tokens) -> ViewStatement | None:
    place = _of_view(spark, tokens)
    if place is None:
        return None
    if tokens.at_end:
        return _rows_of(place, lambda view: [*shown_properties(view).items()], "key", "value")
    tokens.expect("(")
    key = tokens.string() if tokens.is_string() else ".".join(tokens.dotted_name())
    tokens.expect(")")
    tokens.end()

    def property_row(view: View) -> Rows:
        missing = f"View {_quoted_name(place[0].name, view)} does not have property: {key}"
        return [(key, shown_properties(view).get(key, missing))]

    return _rows_of(place, property_row, "key", "value")


def _describe(spark: SparkSession, tokens: Tokens) -> ViewStatement | None:
    """Parse DESCRIBE of a view. Return None for a column of a view, and for functions, namespaces and queries: Spark describes these itself."""
    tokens.take("TABLE")
    is_extended = tokens.take("EXTENDED") or tokens.take("FORMATTED")
    if tokens.at_end:
        return None
    place = _of_view(spark, tokens)
    if place is None or not tokens.at_end:
        return None
    return _rows_of(place, lambda view: _description(place[0].name, view, is_extended=is_extended), "col_name", "data_type", "comment")


def _description(catalog_name: str, view: View, *, is_extended: bool) -> Rows:
    fields = schema_to_struct(view.schema(), field_ids=False).fields
    rows: Rows = [(field.name, field.dataType.simpleString(), field.metadata.get(COMMENT_KEY, "")) for field in fields]
    if not is_extended:
        return rows
    properties = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in shown_properties(view).items())
    details = (
        ("", ""),
        ("# Detailed View Information", ""),
        ("Comment", view.properties.get("comment", "")),
        ("View Catalog and Namespace", ".".join(map(quote_name, (catalog_name, *view.name()[:-1])))),
        ("View Query Output Columns", f"[{', '.join(query_columns(view))}]"),
        ("View Properties", f"[{properties}]"),
        ("Created By", view.properties.get("create_engine_version", "")),
    )
    return [*rows, *((key, value, "") for key, value in details)]


def _rows_of(place: Place, rows: Callable[[View], Rows], *names: str) -> ViewStatement:
    return ViewStatement(name=place[1], run=lambda: rows(place[0].catalog.load_view(place[1])), names=names, is_of_view=True)


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[SparkSession, Tokens], ViewStatement | None]], ...] = (
    (("SHOW", "VIEWS"), _show_views),
    (("SHOW", "CREATE", "TABLE"), _show_create),
    (("SHOW", "TBLPROPERTIES"), _show_properties),
    (("DESCRIBE",), _describe),
    (("DESC",), _describe),
)
