"""`ProcedureAnswers`: one procedure as `CALL lake.system.name(...)` runs it. What it does is in `icefloe.procedures`. Floor: spark."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, TimestamptzType
from icefloe.procedures.procedure import Parameter, Procedure
from icefloe.spark.sql.answers import Answers, answer
from icefloe.spark.types import schema_to_struct

SYSTEM = "system"


class ProcedureAnswers(Answers):
    """A procedure of a catalog under the name it has in SQL."""

    def __init__(self, spark: SparkSession, catalog_name: str, catalog: Catalog, procedure: Procedure) -> None:
        self._spark = spark
        self._catalog_name = catalog_name
        self._catalog = catalog
        self._procedure = procedure
        self._output = schema_to_struct(Schema(*procedure.output), field_ids=False)

    @answer
    def describe(self, _: Any) -> dict[str, Any]:
        parameters = [
            {
                "name": parameter.name,
                "type": schema_to_struct(Schema(NestedField(1, parameter.name, parameter.kind)), field_ids=False).fields[0].dataType.json(),
                "default": None if parameter.required else "NULL",
                "comment": None,
            }
            for parameter in self._procedure.parameters
        ]
        return {
            "name": self._procedure.name,
            "description": self._procedure.description,
            "parameters": parameters,
            "output": self._output.json(),
        }

    @answer
    def call(self, values: Sequence[Any]) -> Any:
        """Runs it; the rows as Spark's own. `values` are the arguments in order."""
        given = {
            parameter.name: self._value(parameter, value)
            for parameter, value in zip(self._procedure.parameters, values, strict=True)
            if value is not None
        }
        rows = self._procedure(self._catalog, **given)
        return self._spark.createDataFrame(list(rows), self._output)._jdf.queryExecution().executedPlan().executeCollect()

    def _value(self, parameter: Parameter, value: Any) -> Any:
        if parameter.is_table:
            return _table_name(self._spark, self._catalog_name, value)
        return value // 1000 if isinstance(parameter.kind, TimestamptzType) else value


def _table_name(spark: SparkSession, catalog_name: str, text: str) -> tuple[str, ...]:
    """The parts of a table's name; one without a namespace lies in the session's current one, where that is of this catalog."""
    parts = list(spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(text).mkString("\0").split("\0"))
    if len(parts) > 2 and parts[0] == catalog_name:
        parts = parts[1:]
    if len(parts) == 1 and spark.catalog.currentCatalog() == catalog_name:
        parts = [*spark.catalog.currentDatabase().split("."), *parts]
    if len(parts) < 2:
        raise InvalidInputError(f"{text!r} names no table", next_step="write it as namespace.table")
    return tuple(parts)
