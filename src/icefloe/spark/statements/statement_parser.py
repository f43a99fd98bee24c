"""`StatementParser`: the statements that Spark's parser passes on: those that it cannot parse, and those that it parses but cannot run on attached catalogs.

The Java side is `bridge/java/SparkParser.java`. The grammars are `alter_statements.py`, `view_statements.py`, `view_descriptions.py`,
`create_table_statements.py`, `partition_statements.py` and `function_statements.py`.
"""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from icefloe.errors import UnsupportedFeatureError
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.messages import StatementMessage
from icefloe.spark.catalog.attached_catalogs import resolve_name
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.scan.spark_cache import recache
from icefloe.spark.statements.alter_statements import AlterStatement, alter_statement
from icefloe.spark.statements.create_table_statements import create_table_statement
from icefloe.spark.statements.function_statements import function_statement
from icefloe.spark.statements.partition_statements import partition_statement
from icefloe.spark.statements.view_descriptions import shown_view
from icefloe.spark.statements.view_statements import Statement, view_statement
from icefloe.spec.sql_tokens import Tokens

# Spark's plans of a MERGE WITH SCHEMA EVOLUTION, for versions of Spark that would run it without schema evolution.
_EVOLVING = ("MergeIntoTable", "UnresolvedWith")


class StatementParser(PythonCallback):
    """The parser of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @connector_method
    def statement(self, request: StatementMessage) -> Any:
        """Parse a statement.

        Args:
            request: `text`, the statement; `kind`, the class of the plan that Spark made of it, None if it made none.

        Returns:
            True if Icefloe runs the statement, False if not; for a statement with rows, Spark's plan of them.

        Raises:
            StatementSyntaxError: a token is wrong.
            UnsupportedFeatureError: this version of Spark cannot run it.
        """
        statement = self._parsed(request)
        if statement is None or not statement.names:
            return statement is not None
        fields = [StructField(name, BooleanType() if name == "isTemporary" else StringType(), False) for name in statement.names]
        return self._spark.createDataFrame(statement.run(), StructType(fields))._jdf.queryExecution().analyzed()

    @connector_method
    def run_statement(self, request: StatementMessage) -> None:
        """Run a statement that `statement` accepted. Raises the errors of the catalog and the table."""
        statement = self._parsed(request)
        if statement is not None:
            statement.run()

    def _parsed(self, request: StatementMessage) -> Statement | None:
        if request.get("kind") in _EVOLVING:
            self._refuse_evolution(Tokens(request["text"]))
            return None
        alter = alter_statement(request["text"])
        if alter is None:
            statement = self._parsed_by_spark(request["text"], is_parsed=request.get("kind", "") is not None)
            if statement is not None:
                request["table"] = list(statement.name)  # for Spark's own errors
                request["is_of_view"] = statement.is_of_view
                if statement.new_name is not None:
                    request["to"] = list(statement.new_name)
            return statement
        place = resolve_name(self._spark, alter.name)
        if place is None:
            return None
        request["table"] = list(place[1])
        return Statement(name=place[1], run=lambda: self._altered(alter, place[0], place[1]))

    def _altered(self, statement: AlterStatement, catalog: SparkCatalog, name: tuple[str, ...]) -> list[tuple[Any, ...]]:
        case_sensitive = self._spark.conf.get("spark.sql.caseSensitive") == "true"
        rows = statement.run(catalog.catalog.load_table(name), case_sensitive=case_sensitive)
        recache(self._spark, [catalog.name, *name])
        return rows

    def _parsed_by_spark(self, text: str, *, is_parsed: bool) -> Statement | None:
        """Return a statement of a kind that Spark parses. One that it does not parse is wrong, as Spark reports, except CREATE TABLE LIKE."""
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
