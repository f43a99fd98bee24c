"""CREATE TABLE as Icefloe runs it itself: `LIKE` of Iceberg tables; and tables of Spark's own that are to have the name of an Iceberg table.

Not every version of Spark parses LIKE where it is about a name of three parts. All else is Spark's.
"""

from pyspark.sql import SparkSession

from icefloe.errors import InvalidInputError, NoSuchTableError, TableAlreadyExistsError, UnsupportedFeatureError
from icefloe.spark.catalog.attached_catalogs import found_in
from icefloe.spark.catalog.sql_tokens import Tokens
from icefloe.spark.catalog.table_definition import own_properties
from icefloe.spark.statements.view_statements import Place, Rows, Statement, is_temporary, properties_of
from icefloe.table.table import Table


def create_table_statement(spark: SparkSession, text: str, *, is_parsed: bool) -> Statement | None:
    """Return the statement, or None where Spark runs it or says why it does not parse it. Raises `StatementSyntaxError`."""
    tokens = Tokens(text)
    if tokens.take("CREATE", "TABLE") or tokens.take("CREATE", "EXTERNAL", "TABLE"):
        return _create_table(spark, tokens)
    return _rename(spark, tokens) if is_parsed and tokens.take("ALTER", "TABLE") else None


def _rename(spark: SparkSession, tokens: Tokens) -> Statement | None:
    """A table of Spark's own that gets a name: nothing, unless an Iceberg table in the session catalog has the name."""
    name = tokens.dotted_name()
    if not tokens.take("RENAME", "TO") or is_temporary(spark, name):
        return None
    old, new = found_in(spark, name), tokens.dotted_name()
    if old is None or not old[0].is_session_catalog or old[0].catalog.table_exists(old[1]):
        return None
    return _in_session_catalog(spark, new, unless_there=False)


def _create_table(spark: SparkSession, tokens: Tokens) -> Statement | None:
    """CREATE TABLE a LIKE b: the definition of an Iceberg table, without its rows. All else is Spark's, but where the name is taken."""
    unless_there = tokens.take("IF", "NOT", "EXISTS")
    name = tokens.dotted_name()
    if not tokens.take("LIKE"):
        return _in_session_catalog(spark, name, unless_there=unless_there)
    source_name = tokens.dotted_name()
    target, source = found_in(spark, name), found_in(spark, source_name)
    if target is None:
        return None
    if target[0].is_session_catalog and (source is None or not source[0].catalog.table_exists(source[1])):
        return None  # one of Spark's own tables like another
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


def _in_session_catalog(spark: SparkSession, name: tuple[str, ...], *, unless_there: bool) -> Statement | None:
    """A table of Spark's own is to have a name of an Iceberg table: Spark looks among its own alone, and nobody could read the new one."""
    found = found_in(spark, name)
    if found is None or not found[0].is_session_catalog or len(found[1]) < 2 or not found[0].catalog.table_exists(found[1]):
        return None

    def run() -> Rows:
        if not unless_there:
            raise TableAlreadyExistsError(
                f"there is an Iceberg table {'.'.join(name)}", next_step="choose another name, or DROP TABLE first"
            )
        return []

    return Statement(name=found[1], run=run)


def _source_of_like(place: Place, name: str) -> Table:
    try:
        return place[0].catalog.load_table(place[1])
    except NoSuchTableError as error:
        # Not as such: Spark's own error would say the name of the table that is to be made.
        raise InvalidInputError(
            f"there is no Iceberg table {name} to take the columns from", next_step="name a table; views and metadata tables will not do"
        ) from error
