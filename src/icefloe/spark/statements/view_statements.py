"""Statements that change views of our catalogs: CREATE, ALTER and DROP, from text to the catalog's own methods.

Spark parses them and can run them in its own catalog alone, so that they are read again here. Reading a view is `spark_views.py`, showing one is
`view_descriptions.py`.
Spec: View spec, View Metadata.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from icefloe.errors import NoSuchTableError, NoSuchViewError, UnsupportedFeatureError
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.bridge.java_compiler import static_method
from icefloe.spark.bridge.spark_errors import AnalysisError
from icefloe.spark.catalog.attached_catalogs import current_place, found_in, is_catalog
from icefloe.spark.catalog.sort_keys import quoted
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.catalog.spark_views import QUERY_COLUMNS, analyzed_query, check_query
from icefloe.spark.catalog.sql_tokens import Tokens
from icefloe.spark.types.spark_types import COMMENT_KEY, struct_to_schema
from icefloe.view.view import View

Place = tuple[SparkCatalog, tuple[str, ...]]
Rows = list[tuple[Any, ...]]
# Names that SHOW TBLPROPERTIES lists among a view's properties, though they are parts of the view itself.
SHOWN_PARTS = ("format-version", "location", "provider")
_RESERVED = frozenset({*SHOWN_PARTS, QUERY_COLUMNS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What to do to what, which gets a new name or not; `names` are the columns of its rows, all text but `isTemporary`, empty where it gives none."""

    name: tuple[str, ...]  # within its catalog
    run: Callable[[], Rows]
    names: tuple[str, ...] = ()
    new_name: tuple[str, ...] | None = None
    is_of_view: bool = False  # errors name a view, not a table


def view_statement(spark: SparkSession, text: str) -> Statement | None:
    """The statement, or None where it is none of these or is about a catalog of others. Raises `StatementSyntaxError`."""
    tokens = Tokens(text)
    for words, parse in _STATEMENTS:
        if tokens.take(*words):
            return parse(spark, tokens)
    return None


def view_place(spark: SparkSession, tokens: Tokens) -> Place | None:
    """Return the catalog and name that come next; None where Spark runs the statement, as for temporary views, which come before all others of their name."""
    name = tokens.dotted_name()
    return None if is_temporary(spark, name) else place_of_view(spark, name)


def place_of_view(spark: SparkSession, name: tuple[str, ...]) -> Place | None:
    """Return the catalog and name of a view; None where Spark keeps it."""
    found = found_in(spark, name)
    return None if found is not None and found[0].is_session_catalog else found


def is_temporary(spark: SparkSession, name: tuple[str, ...]) -> bool:
    """Return True if a name is that of a temporary view."""
    state = spark._jsparkSession.sessionState()
    return bool(state.catalog().isTempView(state.sqlParser().parseMultipartIdentifier(".".join(map(quoted, name)))))


# ---- making ----


def _create(spark: SparkSession, tokens: Tokens, *, replaces: bool = False) -> Statement | None:
    unless_there = tokens.take("IF", "NOT", "EXISTS")
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
            raise tokens.wrong("COMMENT, TBLPROPERTIES or AS was expected")
    query = tokens.rest()
    return Statement(
        name=place[1],
        run=lambda: _make(spark, place, query, columns, properties, unless_there=unless_there, replaces=replaces),
        is_of_view=True,
    )


def _schema_binding(tokens: Tokens) -> None:
    """WITH SCHEMA COMPENSATION is what Spark takes where nothing is said. Raises `UnsupportedFeatureError` for another."""
    if tokens.take("WITH", "SCHEMA") and not tokens.take("COMPENSATION"):
        raise UnsupportedFeatureError(
            "a view of Iceberg keeps the columns that it was made of, and casts what its query gives to their types",
            next_step="write WITH SCHEMA COMPENSATION, which says so, or leave it out",
        )


def _make(
    spark: SparkSession,
    place: Place,
    query: str,
    columns: list[tuple[str, str | None]],
    properties: Mapping[str, str],
    *,
    unless_there: bool,
    replaces: bool,
) -> Rows:
    answers, name = place
    catalog = answers.catalog
    if unless_there and (catalog.view_exists(name) or catalog.table_exists(name)):
        return []
    current, namespace = current_place(spark)
    full_name = (answers.name, *name)
    query = static_method(spark, "ViewQueries", "substituted", query)
    check_query(spark, ".".join(full_name), query)
    _check_nothing_temporary(spark, full_name, query)
    plan = analyzed_query(spark, full_name, query, (current, *namespace))
    if replaces:
        _check_no_cycle(spark, full_name, plan)
    found = StructType.fromJson(json.loads(plan.schema().json()))
    made_by = f"Spark {spark.version}"
    own = {key: value for key, value in properties.items() if key not in SHOWN_PARTS}
    make = catalog.create_or_replace_view if replaces else catalog.create_view
    make(
        name,
        query,
        _schema_of(full_name, found, columns),
        default_catalog=None if current == answers.name else current,
        default_namespace=namespace,
        properties={**own, "create_engine_version": made_by, "engine_version": made_by, QUERY_COLUMNS: ",".join(found.names)},
        location=properties.get("location"),
    )
    return []


def _check_nothing_temporary(spark: SparkSession, name: Sequence[str], query: str) -> None:
    """Check that a query names no temporary view or function: the view must mean the same in every session. Raises `AnalysisError`."""
    state = spark._jsparkSession.sessionState()
    found = json.loads(static_method(spark, "SparkViews", "temporary", state, state.sqlParser().parseQuery(query)))
    for kind, names in zip(("VIEW", "FUNCTION"), found, strict=True):
        if names:
            raise AnalysisError(
                f"view {'.'.join(name)} cannot be made of the temporary {kind.lower()} {'.'.join(names[0])}",
                condition="INVALID_TEMP_OBJ_REFERENCE",
                parameters={"obj": "VIEW", "objName": _identifier(name), "tempObj": kind, "tempObjName": _identifier(names[0])},
            )


def _check_no_cycle(spark: SparkSession, name: Sequence[str], plan: Any) -> None:
    """Check that no view which the plan reads is the view `name`, which nobody could read any more. Raises `AnalysisError`."""
    wanted = [name[0], ".".join(name[1:-1]), name[-1]]  # Spark has one name for a namespace of several levels
    paths = [([wanted, view["name"]], view["reads"]) for view in json.loads(static_method(spark, "SparkViews", "views", plan))]
    while paths:
        path, reads = paths.pop()
        if path[-1] == wanted:
            raise AnalysisError(
                f"view {'.'.join(name)} would read itself: {' reads '.join('.'.join(one) for one in path)}",
                condition="RECURSIVE_VIEW",
                parameters={"viewIdent": _identifier(wanted), "newPath": " -> ".join(map(_identifier, path))},
            )
        paths.extend(([*path, view["name"]], view["reads"]) for view in reads)


def _identifier(name: Sequence[str]) -> str:
    """Return a name as Spark's errors quote it."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in name)


def _schema_of(view: Sequence[str], found: StructType, columns: list[tuple[str, str | None]]) -> Schema:
    if columns and len(columns) != len(found.fields):
        few = len(columns) > len(found.fields)
        raise AnalysisError(
            f"view {'.'.join(view)} has {len(columns)} columns, and its query gives {len(found.fields)}",
            condition=f"CREATE_VIEW_COLUMN_ARITY_MISMATCH.{'NOT_ENOUGH' if few else 'TOO_MANY'}_DATA_COLUMNS",
            parameters={
                "viewName": _identifier(view),
                "viewColumns": ", ".join(name for name, _ in columns),
                "dataColumns": ", ".join(found.names),
            },
        )
    names = columns or [(field.name, field.metadata.get(COMMENT_KEY)) for field in found.fields]
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
        for (name, comment), field in zip(names, found.fields, strict=True)
    ]
    return struct_to_schema(StructType(fields))


def properties_of(tokens: Tokens) -> dict[str, str]:
    """Return the properties of a list in parentheses, as texts."""
    found: dict[str, str] = {}
    tokens.expect("(")
    while True:
        name = tokens.string() if tokens.is_string() else ".".join(tokens.dotted_name())
        tokens.take("=")
        found[name] = tokens.string() if tokens.is_string() else _plain_value(tokens)
        if not tokens.take(","):
            break
    tokens.expect(")")
    return found


def _plain_value(tokens: Tokens) -> str:
    """A number as it is written, or a truth value in small letters."""
    found = tokens.until(",", ")")
    return found.lower() if found.upper() in ("TRUE", "FALSE") else found


# ---- changing ----


def _alter(spark: SparkSession, tokens: Tokens) -> Statement | None:
    place = view_place(spark, tokens)
    if place is None:
        return None
    answers, name = place
    if tokens.take("RENAME", "TO"):
        new = tokens.dotted_name()
        tokens.end()
        target = new[1:] if new[0] == answers.name else new if len(new) > 1 else (*name[:-1], *new)
        if len(new) > 1 and new[0] != answers.name and is_catalog(spark, new[0]):
            raise AnalysisError(
                f"Cannot move view between catalogs: from={answers.name} and to={new[0]}", next_step="CREATE VIEW in the other catalog"
            )
        return Statement(name=name, run=lambda: _rename(place, target), new_name=target, is_of_view=True)
    if tokens.take("AS"):
        query = tokens.rest()
        return Statement(name=name, run=lambda: _redefine(spark, place, query), is_of_view=True)
    if tokens.take("SET", "TBLPROPERTIES"):
        properties = properties_of(tokens)
        tokens.end()
        return Statement(name=name, run=lambda: _set(place, properties, ()), is_of_view=True)
    if tokens.take("UNSET", "TBLPROPERTIES"):
        if_there = tokens.take("IF", "EXISTS")
        gone = _names(tokens)
        tokens.end()
        return Statement(name=name, run=lambda: _set(place, {}, gone, if_there=if_there), is_of_view=True)
    return None


def _loaded(place: Place) -> View:
    """Return the view of a statement that changes it. Raises `NoSuchTableError`: Spark names a missing one so, whatever it should have been."""
    try:
        return place[0].catalog.load_view(place[1])
    except NoSuchViewError as error:
        raise NoSuchTableError(f"there is no view {'.'.join(place[1])}", next_step="see SHOW VIEWS") from error


def _rename(place: Place, target: tuple[str, ...]) -> Rows:
    _loaded(place)
    place[0].catalog.rename_view(place[1], target)
    return []


def _redefine(spark: SparkSession, place: Place, query: str) -> Rows:
    _loaded(place)
    return _make(spark, place, query, [], {}, unless_there=False, replaces=True)


def _set(place: Place, properties: Mapping[str, str], removals: tuple[str, ...], *, if_there: bool = True) -> Rows:
    view = _loaded(place)
    known = view.properties.keys() - {QUERY_COLUMNS} | set(SHOWN_PARTS)
    missing = [key for key in removals if key not in known]
    if missing and not if_there:
        raise AnalysisError(
            f"Cannot remove property that is not set: '{missing[0]}' of view {view.full_name}",
            next_step="write UNSET TBLPROPERTIES IF EXISTS",
        )
    for action, keys in (("set", properties), ("unset", removals)):
        refused = [key for key in keys if key.lower() in _RESERVED]
        if refused:
            raise UnsupportedFeatureError(
                f"Cannot {action} reserved property: '{refused[0]}' of view {view.full_name}; it is a part of the view itself",
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


def _drop(spark: SparkSession, tokens: Tokens) -> Statement | None:
    if_there = tokens.take("IF", "EXISTS")
    place = view_place(spark, tokens)
    tokens.end()
    if place is None:
        return None

    def run() -> Rows:
        if if_there and len(place[1]) < 2:
            return []  # where no namespace is the current one
        try:
            place[0].catalog.drop_view(place[1])
        except NoSuchViewError:
            if not if_there:
                raise
        return []

    return Statement(name=place[1], run=run, is_of_view=True)


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[SparkSession, Tokens], Statement | None]], ...] = (
    (("CREATE", "OR", "REPLACE", "VIEW"), lambda spark, tokens: _create(spark, tokens, replaces=True)),
    (("CREATE", "VIEW"), _create),
    (("ALTER", "VIEW"), _alter),
    (("DROP", "VIEW"), _drop),
)
