"""`StatementParser`: parses and runs statements that Spark's parser passes on, because Spark cannot parse them or cannot run them on attached catalogs.

The Java side is `bridge/java/SparkParser.java`. The grammars are in `alter_statements.py`, `view_statements.py`, `view_descriptions.py`,
`create_table_statements.py` and `partition_statements.py`. SHOW FUNCTIONS IN and DESCRIBE FUNCTION, which Spark runs only for its session catalog, are here.
"""

from fnmatch import fnmatchcase
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from icefloe.errors import UnsupportedFeatureError
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.messages import StatementMessage
from icefloe.spark.catalog.attached_catalogs import SESSION_CATALOG, attached_catalog, resolve_name
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.functions.spark_functions import FUNCTIONS, SYSTEM, Function, is_for_functions
from icefloe.spark.scan.spark_cache import recache
from icefloe.spark.scan.table_selector import shown_in
from icefloe.spark.statements.alter_statements import AlterStatement, alter_statement
from icefloe.spark.statements.create_table_statements import create_table_statement
from icefloe.spark.statements.partition_statements import partition_statement
from icefloe.spark.statements.view_descriptions import shown_view
from icefloe.spark.statements.view_statements import ViewStatement, view_statement
from icefloe.spec.sql_tokens import Tokens

# Spark's plan classes of a MERGE WITH SCHEMA EVOLUTION, for versions of Spark that would run it without schema evolution.
_EVOLVING = ("MergeIntoTable", "UnresolvedWith")


def function_statement(spark: SparkSession, text: str) -> ViewStatement | None:
    """Parse SHOW FUNCTIONS IN or DESCRIBE FUNCTION. Return None for other statements, and for catalogs of others. Raises `StatementSyntaxError`."""
    tokens = Tokens(text)
    if tokens.take("SHOW"):
        return _show(spark, tokens)
    return _describe(spark, tokens) if tokens.take("DESCRIBE", "FUNCTION") or tokens.take("DESC", "FUNCTION") else None


def _show(spark: SparkSession, tokens: Tokens) -> ViewStatement | None:
    if not tokens.take("USER"):
        tokens.take("ALL")
    if not tokens.take("FUNCTIONS") or not (tokens.take("IN") or tokens.take("FROM")):
        return None
    catalog, *namespace = tokens.dotted_name()
    if attached_catalog(spark, catalog) is None:
        place = resolve_name(spark, (catalog, *namespace, "any"))
        if place is None:
            return None
        catalog, namespace = place[0].name, list(place[1][:-1])
    if catalog == SESSION_CATALOG and not is_for_functions(namespace):
        return None
    tokens.take("LIKE")
    pattern = tokens.string() if tokens.is_string() else "*" if tokens.at_end else tokens.name()
    tokens.end()
    names = sorted(f"{catalog}.{SYSTEM}.{name}" for name in FUNCTIONS if is_for_functions(namespace) and _matches(name, pattern))
    return ViewStatement(name=tuple(namespace), run=lambda: [(name,) for name in names], names=("function",))


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name in lower case matches a pattern in Spark's syntax: `*` is any text, `|` separates alternatives, case is ignored."""
    return any(fnmatchcase(name, part.strip().lower()) for part in pattern.split("|"))


def _describe(spark: SparkSession, tokens: Tokens) -> ViewStatement | None:
    tokens.take("EXTENDED")
    place = resolve_name(spark, ("",) if tokens.is_string() else tokens.dotted_name())
    if place is None or not is_for_functions(place[1][:-1]) or place[1][-1].lower() not in FUNCTIONS:
        return None
    tokens.end()
    function = FUNCTIONS[place[1][-1].lower()]
    return ViewStatement(name=place[1], run=lambda: [(line,) for line in _lines(place[0].name, function)], names=("function_desc",))


def _lines(catalog: str, function: Function) -> list[str]:
    return [f"Function: {catalog}.{SYSTEM}.{function.name}", f"Usage: {function.description}"]


class StatementParser(PythonCallback):
    """Parses and runs statements of a session. Java's `SparkParser` calls it for statements that Spark may be unable to run."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @connector_method
    def statement(self, request: StatementMessage) -> Any:
        """Parse a statement, and decide whether Icefloe runs it.

        Args:
            request: `text` is the statement; `kind` is the class of the plan to which Spark parsed it, or None if Spark could not parse it.

        Returns:
            False if Spark runs the statement. For a statement without rows, True, so that Java calls `run_statement` later. A statement with rows is run now,
                and the result is Spark's plan of its rows.

        Raises:
            StatementSyntaxError: the statement has a syntax error.
            UnsupportedFeatureError: this version of Spark cannot run it.
        """
        statement = self._parse(request)
        if statement is None or not statement.names:
            return statement is not None
        fields = [StructField(name, BooleanType() if name == "isTemporary" else StringType(), False) for name in statement.names]
        return self._spark.createDataFrame(statement.run(), StructType(fields))._jdf.queryExecution().analyzed()

    @connector_method
    def run_statement(self, request: StatementMessage) -> None:
        """Run a statement for which the method `statement` has returned True. Raises the errors of the catalog and the table."""
        statement = self._parse(request)
        if statement is not None:
            statement.run()

    def _parse(self, request: StatementMessage) -> ViewStatement | None:
        if request.get("kind") in _EVOLVING:
            self._refuse_evolution(Tokens(request["text"]))
            return None
        alter = alter_statement(request["text"])
        if alter is None:
            statement = self._parsed_by_spark(request["text"], is_parsed=request.get("kind", "") is not None)
            if statement is not None:
                request["table"] = list(statement.name)  # the name in Spark's own errors
                request["is_of_view"] = statement.is_of_view
                if statement.new_name is not None:
                    request["to"] = list(statement.new_name)
            return statement
        place = resolve_name(self._spark, alter.name)
        if place is None:
            return None
        request["table"] = list(place[1])
        return ViewStatement(name=place[1], run=lambda: self._alter(alter, place[0], place[1]))

    def _alter(self, statement: AlterStatement, catalog: SparkCatalog, name: tuple[str, ...]) -> list[tuple[Any, ...]]:
        case_sensitive = self._spark.conf.get("spark.sql.caseSensitive") == "true"
        rows = statement.run(shown_in(catalog.name, catalog.catalog.load_table(name)), case_sensitive=case_sensitive)
        recache(self._spark, [catalog.name, *name])
        return rows

    def _parsed_by_spark(self, text: str, *, is_parsed: bool) -> ViewStatement | None:
        """Parse a statement of a kind that Spark can parse too, or return None.

        If Spark has not parsed it (`is_parsed` is False), it has a syntax error, which Spark reports; only CREATE TABLE LIKE is parsed here nevertheless.
        """
        statement = create_table_statement(self._spark, text, is_parsed=is_parsed)
        if statement is None and is_parsed:
            statement = view_statement(self._spark, text) or shown_view(self._spark, text)
        if statement is None and is_parsed:
            statement = partition_statement(self._spark, text) or function_statement(self._spark, text)
        return statement

    def _refuse_evolution(self, tokens: Tokens) -> None:
        """Raise `UnsupportedFeatureError` for a MERGE WITH SCHEMA EVOLUTION into a table of an attached catalog."""
        while not tokens.at_end and not tokens.take("MERGE", "WITH", "SCHEMA", "EVOLUTION", "INTO"):
            tokens.skip()
        if not tokens.at_end and resolve_name(self._spark, tokens.dotted_name()) is not None:
            raise UnsupportedFeatureError(
                f"MERGE WITH SCHEMA EVOLUTION is not supported on Spark {self._spark.version}, which would leave the table's columns as they are",
                next_step="add the columns with ALTER TABLE and leave out WITH SCHEMA EVOLUTION, or use Spark 4.1 or later",
            )
