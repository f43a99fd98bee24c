"""CREATE TABLE statements that Icefloe runs: LIKE of Iceberg tables, and those that are refused because an Iceberg table has the name.

Some versions of Spark do not parse LIKE with names of three parts. Spark runs all other CREATE TABLE statements.
"""

from pyspark.sql import SparkSession

from icefloe.errors import InvalidInputError, NoSuchTableError, TableAlreadyExistsError, UnsupportedFeatureError
from icefloe.spark.catalog.attached_catalogs import resolve_name
from icefloe.spark.catalog.table_definition import own_properties
from icefloe.spark.statements.view_statements import Place, Rows, ViewStatement, is_temporary, properties_of
from icefloe.spec.sql_tokens import Tokens
from icefloe.table.table import Table


def create_table_statement(spark: SparkSession, text: str, *, is_parsed: bool) -> ViewStatement | None:
    """Parse a CREATE TABLE statement, or ALTER TABLE ... RENAME. Return None if Spark runs or refuses it itself. Raises `StatementSyntaxError`.

    Args:
        spark: the session.
        text: the statement's text.
        is_parsed: True if Spark could parse the statement.
    """
    tokens = Tokens(text)
    if tokens.take("CREATE", "TABLE") or tokens.take("CREATE", "EXTERNAL", "TABLE"):
        return _create_table(spark, tokens)
    return _rename(spark, tokens) if is_parsed and tokens.take("ALTER", "TABLE") else None


def _rename(spark: SparkSession, tokens: Tokens) -> ViewStatement | None:
    """Parse RENAME TO. If a table of Spark would get the name of an Iceberg table in the session catalog, return a statement that raises an error."""
    name = tokens.dotted_name()
    if not tokens.take("RENAME", "TO") or is_temporary(spark, name):
        return None
    old, new = resolve_name(spark, name), tokens.dotted_name()
    if old is None or not old[0].is_session_catalog or old[0].catalog.table_exists(old[1]):
        return None
    return _in_session_catalog(spark, new, if_not_exists=False)


def _create_table(spark: SparkSession, tokens: Tokens) -> ViewStatement | None:
    """Parse the rest of CREATE TABLE. LIKE of an Iceberg table copies its definition without rows; for other statements see `_in_session_catalog`."""
    if_not_exists = tokens.take("IF", "NOT", "EXISTS")
    name = tokens.dotted_name()
    if not tokens.take("LIKE"):
        return _in_session_catalog(spark, name, if_not_exists=if_not_exists)
    source_name = tokens.dotted_name()
    target, source = resolve_name(spark, name), resolve_name(spark, source_name)
    if target is None:
        return None
    if target[0].is_session_catalog and (source is None or not source[0].catalog.table_exists(source[1])):
        return None  # both tables belong to Spark's session catalog
    if source is None:
        raise UnsupportedFeatureError(
            "CREATE TABLE LIKE takes its definition from a table of an attached catalog", next_step="name the columns"
        )
    properties: dict[str, str] = {}
    location = None
    while not tokens.at_end:
        if tokens.take("TBLPROPERTIES"):
            properties |= properties_of(tokens)
        elif tokens.take("LOCATION"):
            location = tokens.string()
        elif tokens.take("USING"):
            properties |= own_properties({"provider": tokens.name()})
        else:
            raise tokens.syntax_error("USING, LOCATION or TBLPROPERTIES was expected")

    def run() -> Rows:
        like = _source_of_like(source, ".".join(source_name))
        create = target[0].catalog.create_table_if_not_exists if if_not_exists else target[0].catalog.create_table
        create(
            target[1],
            like.schema(),
            location=location,
            partition_spec=like.spec(),
            sort_order=like.sort_order(),
            properties={**like.properties, "format-version": str(like.metadata.format_version), **properties},
        )
        return []

    return ViewStatement(name=target[1], run=run)


def _in_session_catalog(spark: SparkSession, name: tuple[str, ...], *, if_not_exists: bool) -> ViewStatement | None:
    """Return a statement for the case that a new table of Spark would get the name of an Iceberg table in the session catalog; None in other cases.

    The statement raises `TableAlreadyExistsError`, or does nothing with IF NOT EXISTS. Spark's table could not be used, because every statement would find the
    Iceberg table.
    """
    place = resolve_name(spark, name)
    if place is None or not place[0].is_session_catalog or len(place[1]) < 2 or not place[0].catalog.table_exists(place[1]):
        return None

    def run() -> Rows:
        if not if_not_exists:
            raise TableAlreadyExistsError(
                f"there is an Iceberg table {'.'.join(name)}", next_step="choose another name, or DROP TABLE first"
            )
        return []

    return ViewStatement(name=place[1], run=run)


def _source_of_like(place: Place, name: str) -> Table:
    try:
        return place[0].catalog.load_table(place[1])
    except NoSuchTableError as error:
        # A different error class, because Spark's own error for a missing table would contain the name of the new table.
        raise InvalidInputError(
            f"there is no Iceberg table {name} to take the columns from", next_step="name a table, not a view or a metadata table"
        ) from error
