"""Statements that change views of attached catalogs: CREATE, ALTER and DROP VIEW.

Spark parses these statements, but runs them only in its session catalog, so that they are parsed again here. `catalog/spark_views.py` reads views, and
`view_descriptions.py` describes them. Spec: View spec, View Metadata.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from icefloe.errors import NoSuchTableError, NoSuchViewError, UnsupportedFeatureError
from icefloe.spark.bridge.gateway import static_method
from icefloe.spark.bridge.spark_errors import AnalysisError
from icefloe.spark.catalog.attached_catalogs import current_namespace, is_catalog, resolve_name
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.catalog.spark_views import QUERY_COLUMNS, analyzed_query, check_query
from icefloe.spark.types.declared_types import struct_of
from icefloe.spark.types.spark_types import COMMENT_KEY, struct_to_schema
from icefloe.spec.metadata.sort_keys import quote_name
from icefloe.spec.schema.schema import Schema
from icefloe.spec.sql_tokens import Tokens
from icefloe.view.view import View

Place = tuple[SparkCatalog, tuple[str, ...]]
Rows = list[tuple[Any, ...]]
# Names that SHOW TBLPROPERTIES lists as view properties although they are fields of the metadata.
SHOWN_PARTS = ("format-version", "location", "provider")
_RESERVED = frozenset({*SHOWN_PARTS, QUERY_COLUMNS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewStatement:
    """A parsed statement that Icefloe runs, on a view or on another object.

    Attributes:
        name: the name of the view, table or other object within its catalog.
        run: a function that runs the statement and returns its rows.
        names: the names of the columns of the rows, which are all text except `isTemporary`; empty if the statement returns no rows.
        new_name: the new name in a rename; None for other statements.
        is_of_view: True if errors should call the object a view, and not a table.
    """

    name: tuple[str, ...]
    run: Callable[[], Rows]
    names: tuple[str, ...] = ()
    new_name: tuple[str, ...] | None = None
    is_of_view: bool = False


def view_statement(spark: SparkSession, text: str) -> ViewStatement | None:
    """Parse a statement that changes a view. Return None for other statements, and for views of other catalogs. Raises `StatementSyntaxError`."""
    tokens = Tokens(text)
    for words, parse in _STATEMENTS:
        if tokens.take(*words):
            return parse(spark, tokens)
    return None


def view_place(spark: SparkSession, tokens: Tokens) -> Place | None:
    """Parse the name of a view, and return its catalog and the name within it; None if Spark runs the statement, because the view is temporary or Spark's."""
    name = tokens.dotted_name()
    return None if is_temporary(spark, name) else place_of_view(spark, name)


def place_of_view(spark: SparkSession, name: tuple[str, ...]) -> Place | None:
    """Return the attached catalog for the name of a view, and the name within it; None for Spark's session catalog and for catalogs of others."""
    place = resolve_name(spark, name)
    return None if place is not None and place[0].is_session_catalog else place


def is_temporary(spark: SparkSession, name: tuple[str, ...]) -> bool:
    """Return whether a name is that of a temporary view."""
    state = spark._jsparkSession.sessionState()
    return bool(state.catalog().isTempView(state.sqlParser().parseMultipartIdentifier(".".join(map(quote_name, name)))))


# ---- CREATE VIEW ----


def _create(spark: SparkSession, tokens: Tokens, *, replaces: bool = False) -> ViewStatement | None:
    if_not_exists = tokens.take("IF", "NOT", "EXISTS")
    place = place_of_view(spark, tokens.dotted_name())
    if place is None:
        return None
    columns: list[tuple[str, str | None]] = []
    if tokens.take("("):
        while True:
            columns.append((tokens.name(), tokens.string() if tokens.take("COMMENT") else None))
            if not tokens.take(","):
                break
        tokens.expect(")")
    _schema_binding(tokens)
    properties: dict[str, str] = {}
    while not tokens.take("AS"):
        if tokens.take("COMMENT"):
            properties["comment"] = tokens.string()
        elif tokens.take("TBLPROPERTIES"):
            properties |= properties_of(tokens)
        else:
            raise tokens.syntax_error("COMMENT, TBLPROPERTIES or AS was expected")
    query = tokens.rest()
    return ViewStatement(
        name=place[1],
        run=lambda: _create_view(spark, place, query, columns, properties, if_not_exists=if_not_exists, replaces=replaces),
        is_of_view=True,
    )


def _schema_binding(tokens: Tokens) -> bool:
    """Skip the clause WITH SCHEMA COMPENSATION, the default, and return whether it is present. Raises `UnsupportedFeatureError` for other schema bindings."""
    if not tokens.take("WITH", "SCHEMA"):
        return False
    if not tokens.take("COMPENSATION"):
        raise UnsupportedFeatureError(
            "an Iceberg view keeps its columns, and casts those of its query to their types",
            next_step="write WITH SCHEMA COMPENSATION, which means this, or leave it out",
        )
    return True


def _create_view(
    spark: SparkSession,
    place: Place,
    query: str,
    columns: list[tuple[str, str | None]],
    properties: Mapping[str, str],
    *,
    if_not_exists: bool,
    replaces: bool,
) -> Rows:
    spark_catalog, name = place
    catalog = spark_catalog.catalog
    if if_not_exists and (catalog.view_exists(name) or catalog.table_exists(name)):
        return []
    current, namespace = current_namespace(spark)
    full_name = (spark_catalog.name, *name)
    query = static_method(spark, "ViewQueries", "substituted", query)
    check_query(spark, ".".join(full_name), query)
    _check_nothing_temporary(spark, full_name, query)
    plan = analyzed_query(spark, full_name, query, (current, *namespace))
    if replaces:
        _check_no_cycle(spark, full_name, plan)
    query_schema = struct_of(plan.schema().json())
    engine_version = f"Spark {spark.version}"
    view_properties = {key: value for key, value in properties.items() if key not in SHOWN_PARTS}
    create = catalog.create_or_replace_view if replaces else catalog.create_view
    create(
        name,
        query,
        _schema_of(full_name, query_schema, columns),
        default_catalog=None if current == spark_catalog.name else current,
        default_namespace=namespace,
        properties={
            **view_properties,
            "create_engine_version": engine_version,
            "engine_version": engine_version,
            QUERY_COLUMNS: ",".join(query_schema.names),
        },
        location=properties.get("location"),
    )
    return []


def _check_nothing_temporary(spark: SparkSession, name: Sequence[str], query: str) -> None:
    """Raise `AnalysisError` if a view's query uses a temporary view or function, because the view must return the same rows in every session."""
    state = spark._jsparkSession.sessionState()
    temporary_names = json.loads(static_method(spark, "SparkViews", "temporary", state, state.sqlParser().parseQuery(query)))
    for kind, names in zip(("VIEW", "FUNCTION"), temporary_names, strict=True):
        if names:
            raise AnalysisError(
                f"view {'.'.join(name)} cannot be made of the temporary {kind.lower()} {'.'.join(names[0])}",
                condition="INVALID_TEMP_OBJ_REFERENCE",
                parameters={"obj": "VIEW", "objName": _identifier(name), "tempObj": kind, "tempObjName": _identifier(names[0])},
            )


def _check_no_cycle(spark: SparkSession, name: Sequence[str], plan: Any) -> None:
    """Raise `AnalysisError` if the plan of a view's query reads the view `name` itself, directly or through other views, because it could not be read."""
    created = [name[0], ".".join(name[1:-1]), name[-1]]  # Spark joins the levels of a namespace with dots
    paths = [([created, view["name"]], view["reads"]) for view in json.loads(static_method(spark, "SparkViews", "views", plan))]
    while paths:
        path, reads = paths.pop()
        if path[-1] == created:
            raise AnalysisError(
                f"view {'.'.join(name)} would read itself: {' reads '.join('.'.join(view) for view in path)}",
                condition="RECURSIVE_VIEW",
                parameters={"viewIdent": _identifier(created), "newPath": " -> ".join(map(_identifier, path))},
            )
        paths.extend(([*path, view["name"]], view["reads"]) for view in reads)


def _identifier(name: Sequence[str]) -> str:
    """Return a name as Spark's errors contain it: each part in backticks."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in name)


def _schema_of(view: Sequence[str], query_schema: StructType, columns: list[tuple[str, str | None]]) -> Schema:
    if columns and len(columns) != len(query_schema.fields):
        has_too_few = len(columns) > len(query_schema.fields)
        raise AnalysisError(
            f"view {'.'.join(view)} has {len(columns)} columns, and its query returns {len(query_schema.fields)}",
            condition=f"CREATE_VIEW_COLUMN_ARITY_MISMATCH.{'NOT_ENOUGH' if has_too_few else 'TOO_MANY'}_DATA_COLUMNS",
            parameters={
                "viewName": _identifier(view),
                "viewColumns": ", ".join(name for name, _ in columns),
                "dataColumns": ", ".join(query_schema.names),
            },
        )
    names = columns or [(field.name, field.metadata.get(COMMENT_KEY)) for field in query_schema.fields]
    seen: set[str] = set()
    for name, _ in names:
        if name.lower() in seen:
            raise AnalysisError(
                f"two columns of view {'.'.join(view)} have the name {name}",
                condition="COLUMN_ALREADY_EXISTS",
                parameters={"columnName": _identifier([name.lower()])},
            )
        seen.add(name.lower())
    fields = [
        StructField(name, field.dataType, True, {} if comment is None else {COMMENT_KEY: comment})
        for (name, comment), field in zip(names, query_schema.fields, strict=True)
    ]
    return struct_to_schema(StructType(fields))


def properties_of(tokens: Tokens) -> dict[str, str]:
    """Parse a list of properties in parentheses, and return their values as text, by name."""
    properties: dict[str, str] = {}
    tokens.expect("(")
    while True:
        name = tokens.string() if tokens.is_string() else ".".join(tokens.dotted_name())
        tokens.take("=")
        properties[name] = tokens.string() if tokens.is_string() else _plain_value(tokens)
        if not tokens.take(","):
            break
    tokens.expect(")")
    return properties


def _plain_value(tokens: Tokens) -> str:
    """Parse a value that is not a string literal: a boolean is returned in lower case, a number as it is written."""
    value = tokens.until(",", ")")
    return value.lower() if value.upper() in ("TRUE", "FALSE") else value


# ---- ALTER and DROP VIEW ----


def _alter(spark: SparkSession, tokens: Tokens) -> ViewStatement | None:
    place = view_place(spark, tokens)
    if place is None:
        return None
    spark_catalog, name = place
    if tokens.take("RENAME", "TO"):
        new = tokens.dotted_name()
        tokens.end()
        target = new[1:] if new[0] == spark_catalog.name else new if len(new) > 1 else (*name[:-1], *new)
        if len(new) > 1 and new[0] != spark_catalog.name and is_catalog(spark, new[0]):
            raise AnalysisError(
                f"Cannot move view between catalogs: from={spark_catalog.name} and to={new[0]}",
                next_step="CREATE VIEW in the other catalog",
            )
        return ViewStatement(name=name, run=lambda: _rename(place, target), new_name=target, is_of_view=True)
    if tokens.take("AS"):
        query = tokens.rest()
        return ViewStatement(name=name, run=lambda: _redefine(spark, place, query), is_of_view=True)
    if tokens.take("SET", "TBLPROPERTIES"):
        properties = properties_of(tokens)
        tokens.end()
        return ViewStatement(name=name, run=lambda: _set_properties(place, properties, ()), is_of_view=True)
    if tokens.take("UNSET", "TBLPROPERTIES"):
        if_exists = tokens.take("IF", "EXISTS")
        removals = _names(tokens)
        tokens.end()
        return ViewStatement(name=name, run=lambda: _set_properties(place, {}, removals, if_exists=if_exists), is_of_view=True)
    if _schema_binding(tokens):
        tokens.end()
        return ViewStatement(name=name, run=lambda: _keep(place), is_of_view=True)
    return None


def _load_view(place: Place) -> View:
    """Load a view. If it does not exist, raises `NoSuchTableError`, because Spark reports a missing view as a missing table."""
    try:
        return place[0].catalog.load_view(place[1])
    except NoSuchViewError as error:
        raise NoSuchTableError(f"there is no view {'.'.join(place[1])}", next_step="see SHOW VIEWS") from error


def _keep(place: Place) -> Rows:
    _load_view(place)
    return []


def _rename(place: Place, target: tuple[str, ...]) -> Rows:
    _load_view(place)
    place[0].catalog.rename_view(place[1], target)
    return []


def _redefine(spark: SparkSession, place: Place, query: str) -> Rows:
    _load_view(place)
    return _create_view(spark, place, query, [], {}, if_not_exists=False, replaces=True)


def _set_properties(place: Place, properties: Mapping[str, str], removals: tuple[str, ...], *, if_exists: bool = True) -> Rows:
    view = _load_view(place)
    existing = view.properties.keys() - {QUERY_COLUMNS} | set(SHOWN_PARTS)
    missing = [key for key in removals if key not in existing]
    if missing and not if_exists:
        raise AnalysisError(
            f"Cannot remove property that is not set: '{missing[0]}' of view {view.full_name}",
            next_step="write UNSET TBLPROPERTIES IF EXISTS",
        )
    for action, keys in (("set", properties), ("unset", removals)):
        refused = [key for key in keys if key.lower() in _RESERVED]
        if refused:
            raise UnsupportedFeatureError(
                f"Cannot {action} reserved property: '{refused[0]}' of view {view.full_name}; it is a field of the view's metadata",
                next_step="leave it out",
            )
    with view.update_properties() as update:
        for key, value in properties.items():
            update.set(key, value)
        for key in removals:
            update.remove(key)
    return []


def _names(tokens: Tokens) -> tuple[str, ...]:
    tokens.expect("(")
    names = [tokens.string() if tokens.is_string() else ".".join(tokens.dotted_name())]
    while tokens.take(","):
        names.append(tokens.string() if tokens.is_string() else ".".join(tokens.dotted_name()))
    tokens.expect(")")
    return tuple(names)


def _drop(spark: SparkSession, tokens: Tokens) -> ViewStatement | None:
    if_exists = tokens.take("IF", "EXISTS")
    place = view_place(spark, tokens)
    tokens.end()
    if place is None:
        return None

    def run() -> Rows:
        if if_exists and len(place[1]) < 2:
            return []  # there is no current namespace
        try:
            place[0].catalog.drop_view(place[1])
        except NoSuchViewError:
            if not if_exists:
                raise
        return []

    return ViewStatement(name=place[1], run=run, is_of_view=True)


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[SparkSession, Tokens], ViewStatement | None]], ...] = (
    (("CREATE", "OR", "REPLACE", "VIEW"), lambda spark, tokens: _create(spark, tokens, replaces=True)),
    (("CREATE", "VIEW"), _create),
    (("ALTER", "VIEW"), _alter),
    (("DROP", "VIEW"), _drop),
)
