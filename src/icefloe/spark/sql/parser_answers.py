"""`ParserAnswers`: statements that Spark's parser hands over: those it cannot parse, and the kinds it parses and cannot run on our catalogs.

The Java side is `jvm/SparkParser.java`; the grammar is in `statements.py`. Floor: spark.
"""

from typing import Any

from pyspark.sql import SparkSession

from icefloe.spark.sql.answers import Answers, answer
from icefloe.spark.sql.attached import found_in
from icefloe.spark.sql.statements import AlterStatement, alter_statement


class ParserAnswers(Answers):
    """The statements of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @answer
    def statement(self, asked: dict[str, Any]) -> Any:
        """Whether a statement is ours, to be run later. `kind` is the class of Spark's plan, None where Spark has none."""
        return self._parsed(asked["text"]) is not None if asked["kind"] is None else False

    @answer
    def run_statement(self, asked: dict[str, Any]) -> None:
        """Runs a statement that `statement` took."""
        found = self._parsed(asked["text"])
        if found is None:
            return
        catalog, name = found_in(self._spark, found.name) or (None, ())
        if catalog is not None:
            asked["table"] = list(name)  # Spark's own errors say the name
            found.run(catalog.catalog.load_table(name))

    def _parsed(self, text: str) -> AlterStatement | None:
        found = alter_statement(text)
        return found if found is not None and found_in(self._spark, found.name) is not None else None
