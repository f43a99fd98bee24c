"""`StatementParser`: statements that Spark's parser hands over: those it cannot parse, and the kinds it parses and cannot run on our catalogs.

The Java side is `bridge/java/SparkParser.java`; the grammar is in `alter_statements.py`, `view_statements.py`, `view_descriptions.py`,
`create_table_statements.py`, `partition_statements.py` and `function_statements.py`.
"""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from icefloe.errors import UnsupportedFeatureError
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.catalog.attached_catalogs import found_in
from icefloe.spark.catalog.spark_catalog import SparkCatalog
from icefloe.spark.catalog.sql_tokens import Tokens
from icefloe.spark.scan.spark_cache import recache
from icefloe.spark.statements.alter_statements import AlterStatement, alter_statement
from icefloe.spark.statements.create_table_statements import create_table_statement
from icefloe.spark.statements.function_statements import function_statement
from icefloe.spark.statements.partition_statements import partition_statement
from icefloe.spark.statements.view_descriptions import shown_view
from icefloe.spark.statements.view_statements import Statement, view_statement

# Spark's plans of a MERGE WITH SCHEMA EVOLUTION, which come here from a Spark that would run it without.
_EVOLVING = ("MergeIntoTable", "UnresolvedWith")


class StatementParser(PythonCallback):
    """The statements of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @connector_method
    def statement(self, asked: dict[str, Any]) -> Any:
        """Whether a statement is ours, to be run later; of one that shows something, the plan of its rows.

        `kind` is the class of the plan that Spark made of it, None where it made none.
        """
        found = self._parsed(asked)
        if found is None or not found.names:
            return found is not None
        fields = [StructField(name, BooleanType() if name == "isTemporary" else StringType(), False) for name in found.names]
        return self._spark.createDataFrame(found.run(), StructType(fields))._jdf.queryExecution().analyzed()

    @connector_method
    def run_statement(self, asked: dict[str, Any]) -> None:
        """Runs a statement that `statement` took."""
        found = self._parsed(asked)
        if found is not None:
            found.run()

    def _parsed(self, asked: dict[str, Any]) -> Statement | None:
        if asked.get("kind") in _EVOLVING:
            self._refuse_evolution(Tokens(asked["text"]))
            return None
        found = alter_statement(asked["text"])
        if found is None:
            made = self._parsed_by_spark(asked["text"], is_parsed=asked.get("kind", "") is not None)
            if made is not None:
                asked["table"] = list(made.name)  # Spark's own errors say the name
                asked["is_of_view"] = made.is_of_view
                if made.new_name is not None:
                    asked["to"] = list(made.new_name)
            return made
        place = found_in(self._spark, found.name)
        if place is None:
            return None
        asked["table"] = list(place[1])
        return Statement(name=place[1], run=lambda: self._changed(found, place[0], place[1]))

    def _changed(self, statement: AlterStatement, catalog: SparkCatalog, name: tuple[str, ...]) -> list[tuple[Any, ...]]:
        exact = self._spark.conf.get("spark.sql.caseSensitive") == "true"
        found = statement.run(catalog.catalog.load_table(name), case_sensitive=exact)
        recache(self._spark, [catalog.name, *name])
        return found

    def _parsed_by_spark(self, text: str, *, is_parsed: bool) -> Statement | None:
        """A statement of a kind that Spark parses itself; what it does not parse is wrong, and Spark says why, but for CREATE TABLE LIKE."""
        made = create_table_statement(self._spark, text, is_parsed=is_parsed)
        if made is None and is_parsed:
            made = view_statement(self._spark, text) or shown_view(self._spark, text)
        if made is None and is_parsed:
            made = partition_statement(self._spark, text) or function_statement(self._spark, text)
        return made

    def _refuse_evolution(self, tokens: Tokens) -> None:
        while not tokens.at_end and not tokens.take("MERGE", "WITH", "SCHEMA", "EVOLUTION", "INTO"):
            tokens.skip()
        if not tokens.at_end and found_in(self._spark, tokens.dotted_name()) is not None:
            raise UnsupportedFeatureError(
                f"MERGE WITH SCHEMA EVOLUTION is not supported on Spark {self._spark.version}, which would leave the table's columns as they are",
                next_step="add the columns with ALTER TABLE and leave the words out, or use Spark 4.1 or later",
            )
