"""Statements about views of our catalogs: CREATE, ALTER, DROP, SHOW VIEWS and SHOW CREATE, from text to the catalog's own doors; and CREATE TABLE LIKE.

Spark parses them and can run them in its own catalog alone, so that they are read again here. Reading a view is `view_answers.py`. Floor: spark.
Spec: View spec, View Metadata.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from icefloe.errors import InvalidInputError, NoSuchTableError, NoSuchViewError, UnsupportedFeatureError
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.sql.attached import attached_catalog, current_place, found_in
from icefloe.spark.sql.catalog_answers import CatalogAnswers
from icefloe.spark.sql.definitions import own_properties
from icefloe.spark.sql.sort_keys import quoted
from icefloe.spark.sql.tokens import Tokens
from icefloe.spark.sql.view_answers import QUERY_COLUMNS, loaded_views, query_of, session_at, shown_properties
from icefloe.spark.sql.view_cycles import check_no_cycle
from icefloe.spark.types import COMMENT_KEY, struct_to_schema
from icefloe.table.table import Table
from icefloe.view.view import View

Place = tuple[CatalogAnswers, tuple[str, ...]]
Rows = list[tuple[Any, ...]]
# What Java's Spark shows among a view's properties, and does not let anybody set.
_NOT_PROPERTIES = frozenset({"provider", "location", "format-version", QUERY_COLUMNS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What to do to what, which gets a new name or not; `names` are the columns of its rows, all text but `isTemporary`, empty where it gives none."""

    name: tuple[str, ...]  # within its catalog
    run: Callable[[], Rows]
    names: tuple[str, ...] = ()
    new_name: tuple[str, ...] | None = None


def view_statement(spark: SparkSession, text: str, *, is_parsed: bool = True) -> Statement | None:
    """The statement, or None where it is none of these or is about a catalog of others. Raises `StatementSyntaxError`.

    What Spark does not parse is wrong, and Spark says why; CREATE TABLE LIKE is not.
    """
    tokens = Tokens(text)
    for words, parse in _STATEMENTS if is_parsed else (_LIKE,):
        if tokens.take(*words):
            return parse(spark, tokens)
    return None


def _place(spark: SparkSession, tokens: Tokens) -> Place | None:
    """None also for a temporary view, which comes before all others of its name and is Spark's."""
    name = tokens.dotted_name()
    return None if _is_temporary(spark, name) else found_in(spark, name)


def _is_temporary(spark: SparkSession, name: tuple[str, ...]) -> bool:
    state = spark._jsparkSession.sessionState()
    return bool(state.catalog().isTempView(state.sqlParser().parseMultipartIdentifier(".".join(map(quoted, name)))))


# ---- making ----


def _create(spark: SparkSession, tokens: Tokens, *, replaces: bool = False) -> Statement | None:
    unless_there = tokens.take("IF", "NOT", "EXISTS")
    place = found_in(spark, tokens.dotted_name())
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
            properties |= _properties(tokens)
        else:
            raise tokens.wrong("COMMENT, TBLPROPERTIES or AS was expected")
    query = tokens.rest()
    return Statement(
        name=place[1], run=lambda: _make(spark, place, query, columns, properties, unless_there=unless_there, replaces=replaces)
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
    with loaded_views() as named:
        found = _output_of(spark, query)
    if replaces:
        check_no_cycle(spark, ".".join((answers.name, *name)), named)
    make = catalog.create_or_replace_view if replaces else catalog.create_view
    make(
        name,
        query,
        _schema_of(found, columns),
        default_catalog=None if current == answers.name else current,
        default_namespace=namespace,
        properties={**properties, QUERY_COLUMNS: ",".join(found.names)},
    )
    return []


def _output_of(spark: SparkSession, query: str) -> StructType:
    # Where no temporary view is seen: the view must mean the same in every session.
    return session_at(spark, *current_place(spark)).sql(query).schema


def _schema_of(found: StructType, columns: list[tuple[str, str | None]]) -> Schema:
    if columns and len(columns) != len(found.fields):
        raise InvalidInputError(
            f"the view has {len(columns)} columns, and its query gives {len(found.fields)}",
            next_step="name as many columns as the query gives",
        )
    names = columns or [(field.name, field.metadata.get(COMMENT_KEY)) for field in found.fields]
    if len({name.lower() for name, _ in names}) < len(names):
        raise InvalidInputError("two columns of the view have one name", next_step="give them other names, with AS")
    fields = [
        StructField(name, field.dataType, True, {} if comment is None else {COMMENT_KEY: comment})
        for (name, comment), field in zip(names, found.fields, strict=True)
    ]
    return struct_to_schema(StructType(fields))


def _properties(tokens: Tokens) -> dict[str, str]:
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


def _like(spark: SparkSession, tokens: Tokens) -> Statement | None:
    """CREATE TABLE a LIKE b: the definition of an Iceberg table, without its rows."""
    unless_there = tokens.take("IF", "NOT", "EXISTS")
    name = tokens.dotted_name()
    if not tokens.take("LIKE"):
        return None
    source_name = tokens.dotted_name()
    target, source = found_in(spark, name), found_in(spark, source_name)
    if target is None:
        return None
    if source is None:
        raise UnsupportedFeatureError(
            "CREATE TABLE LIKE takes its definition from a table of an attached catalog", next_step="name the columns"
        )
    properties: dict[str, str] = {}
    location = None
    while not tokens.at_end:
        if tokens.take("TBLPROPERTIES"):
            properties |= _properties(tokens)
        elif tokens.take("LOCATION"):
            location = tokens.string()
        elif tokens.take("USING"):
            properties |= own_properties({"provider": tokens.name()})
        else:
            raise tokens.wrong("USING, LOCATION or TBLPROPERTIES was expected")

    def run() -> Rows:
        known = _source_of_like(source, ".".join(source_name))
        make = target[0].catalog.create_table_if_not_exists if unless_there else target[0].catalog.create_table
        make(
            target[1],
            known.schema(),
            location=location,
            partition_spec=known.spec(),
            sort_order=known.sort_order(),
            properties={**known.properties, "format-version": str(known.metadata.format_version), **properties},
        )
        return []

    return Statement(name=target[1], run=run)


def _source_of_like(place: Place, name: str) -> Table:
    try:
        return place[0].catalog.load_table(place[1])
    except NoSuchTableError as error:
        # Not as such: Spark's own error would say the name of the table that is to be made.
        raise InvalidInputError(
            f"there is no Iceberg table {name} to take the columns from", next_step="name a table; views and metadata tables will not do"
        ) from error


# ---- changing ----


def _alter(spark: SparkSession, tokens: Tokens) -> Statement | None:
    place = _place(spark, tokens)
    if place is None:
        return None
    answers, name = place
    if tokens.take("RENAME", "TO"):
        new = tokens.dotted_name()
        tokens.end()
        found = found_in(spark, new) if len(new) > 1 else (answers, (*name[:-1], *new))
        if found is not None and found[0] is not answers:
            raise UnsupportedFeatureError("a view cannot be renamed into another catalog", next_step="create it there")
        target = new if found is None else found[1]
        return Statement(name=name, run=lambda: _done(answers.catalog.rename_view(name, target)), new_name=target)
    if tokens.take("AS"):
        query = tokens.rest()
        return Statement(name=name, run=lambda: _redefine(spark, place, query))
    if tokens.take("SET", "TBLPROPERTIES"):
        properties = _properties(tokens)
        tokens.end()
        return Statement(name=name, run=lambda: _set(place, properties, ()))
    if tokens.take("UNSET", "TBLPROPERTIES"):
        if_there = tokens.take("IF", "EXISTS")
        gone = _names(tokens)
        tokens.end()
        return Statement(name=name, run=lambda: _set(place, {}, gone, if_there=if_there))
    return None


def _redefine(spark: SparkSession, place: Place, query: str) -> Rows:
    place[0].catalog.load_view(place[1])
    return _make(spark, place, query, [], {}, unless_there=False, replaces=True)


def _set(place: Place, properties: Mapping[str, str], gone: tuple[str, ...], *, if_there: bool = True) -> Rows:
    view = place[0].catalog.load_view(place[1])
    refused = [key for key in (*properties, *gone) if key.lower() in _NOT_PROPERTIES]
    if refused:
        raise UnsupportedFeatureError(
            f"the property {refused[0]} of view {view.full_name} cannot be changed: it is no property, but what the view itself is",
            next_step="leave it out",
        )
    missing = [key for key in gone if key not in view.properties]
    if missing and not if_there:
        raise InvalidInputError(
            f"view {view.full_name} has no property {missing[0]!r}", next_step="write UNSET TBLPROPERTIES IF EXISTS, or leave it out"
        )
    with view.update_properties() as update:
        for key, value in properties.items():
            update.set(key, value)
        for key in gone:
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
    place = _place(spark, tokens)
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

    return Statement(name=place[1], run=run)


def _done(_: View) -> Rows:
    return []


# ---- showing ----


def _show(spark: SparkSession, tokens: Tokens) -> Statement | None:
    current, namespace = current_place(spark)
    if tokens.take("FROM") or tokens.take("IN"):
        parts = tokens.dotted_name()
        named = attached_catalog(spark, parts[0])
        answers, namespace = (named, parts[1:]) if named is not None else (attached_catalog(spark, current), parts)
    else:
        answers = attached_catalog(spark, current)
    if answers is None:
        return None
    tokens.take("LIKE")
    pattern = "*" if tokens.at_end else tokens.string()
    tokens.end()

    def run() -> Rows:
        names = [name[-1] for name in answers.catalog.list_views(namespace)] if namespace else []
        wanted = [one.strip().lower() for one in pattern.split("|")]
        return [(".".join(namespace), name, False) for name in names if any(fnmatchcase(name.lower(), one) for one in wanted)]

    return Statement(name=(*namespace, "*"), run=run, names=("namespace", "viewName", "isTemporary"))


def _show_create(spark: SparkSession, tokens: Tokens) -> Statement | None:
    place = _place(spark, tokens)
    if place is None or not tokens.at_end or not place[0].catalog.keeps_views or not place[0].catalog.view_exists(place[1]):
        return None
    return Statement(
        name=place[1], run=lambda: [(_text_of(place[0].name, place[0].catalog.load_view(place[1])),)], names=("createtab_stmt",)
    )


def _text_of(catalog_name: str, view: View) -> str:
    columns = ",\n  ".join(quoted(field.name) + (f" COMMENT {_literal(field.doc)}" if field.doc else "") for field in view.schema().fields)
    lines = [f"CREATE VIEW {'.'.join(map(quoted, (catalog_name, *view.name())))} (\n  {columns})"]
    properties = shown_properties(view)
    if "comment" in properties:
        lines.append(f"COMMENT {_literal(properties.pop('comment'))}")
    if properties:
        pairs = ",\n  ".join(f"{_literal(key)} = {_literal(value)}" for key, value in sorted(properties.items()))
        lines.append(f"TBLPROPERTIES (\n  {pairs})")
    return "\n".join([*lines, f"AS\n{query_of(view)}\n"])


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# The one that not every version of Spark parses where it is about a name of three parts.
_LIKE = (("CREATE", "TABLE"), _like)
_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[SparkSession, Tokens], Statement | None]], ...] = (
    (("CREATE", "OR", "REPLACE", "VIEW"), lambda spark, tokens: _create(spark, tokens, replaces=True)),
    (("CREATE", "VIEW"), _create),
    _LIKE,
    (("ALTER", "VIEW"), _alter),
    (("DROP", "VIEW"), _drop),
    (("SHOW", "VIEWS"), _show),
    (("SHOW", "CREATE", "TABLE"), _show_create),
)
