"""`SparkProcedure`: one procedure as `CALL lake.system.name(...)` runs it. What it does is in `icefloe.procedures`."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import (
    BooleanType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimestamptzType,
)
from icefloe.procedures.procedure import Parameter, Procedure, Rows, WiderRows
from icefloe.spark.bridge.callback import ConnectorObject, connector_method
from icefloe.spark.bridge.gateway import java_array, java_class
from icefloe.spark.catalog.source_tables import source_folders
from icefloe.spark.scan.spark_cache import recache
from icefloe.spark.types.spark_types import schema_to_struct

_PARTITION_FILTER = "partition_filter"
_PROCEDURES = "org.apache.spark.sql.connector.catalog.procedures"
# By which a row of Spark's gives a value.
_GETTERS: Mapping[type[IcebergType], str] = {
    BooleanType: "getBoolean",
    IntegerType: "getInt",
    LongType: "getLong",
    TimestamptzType: "getLong",
}


class SparkProcedure(ConnectorObject):
    """A procedure of a catalog under the name it has in SQL, before its arguments are known.

    What is bound is another object: one that is both is taken for bound while arguments are still looked at, as `current_timestamp() - INTERVAL 5 DAYS` is.
    """

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.procedures.UnboundProcedure",)

    def __init__(self, spark: SparkSession, catalog_name: str, catalog: Catalog, procedure: Procedure) -> None:
        self._spark = spark
        self._catalog_name = catalog_name
        self._catalog = catalog
        self._procedure = procedure

    def says(self) -> Mapping[str, Any]:
        return {"name": self._procedure.name, "description": self._procedure.description}

    @connector_method
    def bind(self, _: Any) -> "BoundSparkProcedure":
        """For arguments of any types, which Spark casts."""
        return BoundSparkProcedure(self._spark, self._catalog_name, self._catalog, self._procedure)


class BoundSparkProcedure(SparkProcedure):
    """A procedure that can be called."""

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.procedures.BoundProcedure",)

    def says(self) -> Mapping[str, Any]:
        return {**super().says(), "isDeterministic": False}

    @connector_method
    def parameters(self) -> Any:
        """Spark's own objects, in which it keeps a default as it wants it."""
        holder = java_class(self._spark, f"{_PROCEDURES}.ProcedureParameter")
        made = []
        for parameter in self._procedure.parameters:
            struct = schema_to_struct(Schema(NestedField(1, parameter.name, parameter.kind)), field_ids=False)
            builder = getattr(holder, "in")(parameter.name, self._spark._jsparkSession.parseDataType(struct.fields[0].dataType.json()))
            made.append((builder if parameter.required else builder.defaultValue("NULL")).build())
        return java_array(self._spark, f"{_PROCEDURES}.ProcedureParameter", made)

    @connector_method
    def call(self, row: Any) -> "ProcedureResultScan":
        """Runs it. `row` is Spark's, of the arguments in order."""
        found = ((parameter, value_at(row, place, parameter.kind)) for place, parameter in enumerate(self._procedure.parameters))
        given = {parameter.name: self._value(parameter, value) for parameter, value in found if value is not None}
        self._find_sources(given)
        rows = self._procedure(self._catalog, **given)
        more = rows.more if isinstance(rows, WiderRows) else ()
        places = enumerate(more, len(self._procedure.output) + 1)
        added = (NestedField(100 * place, name, kind, required=True) for place, (name, kind) in places)
        output = schema_to_struct(Schema(*self._procedure.output, *added), field_ids=False)
        for parameter in self._procedure.parameters:
            if parameter.is_table and parameter.name in given:
                recache(self._spark, [self._catalog_name, *given[parameter.name]])
        return ProcedureResultScan(self._spark, rows, output)

    def _find_sources(self, given: dict[str, Any]) -> None:
        """Put folders in the place of the name of a table of Spark's own catalog; its partitions are chosen here, by what that catalog says of them."""
        for parameter in self._procedure.parameters:
            if parameter.is_source and parameter.name in given:
                folders = source_folders(self._spark, given[parameter.name], given.get(_PARTITION_FILTER) or {})
                if folders is not None:
                    given[parameter.name] = folders
                    given.pop(_PARTITION_FILTER, None)

    def _value(self, parameter: Parameter, value: Any) -> Any:
        if parameter.is_table:
            return _table_name(self._spark, self._catalog_name, value)
        return value // 1000 if isinstance(parameter.kind, TimestamptzType) else value


class ProcedureResultScan(ConnectorObject):
    """What a procedure returned."""

    interfaces: ClassVar[tuple[str, ...]] = ("read.LocalScan",)

    def __init__(self, spark: SparkSession, rows: Rows, columns: StructType) -> None:
        self._spark = spark
        self._rows = rows
        self._columns = columns

    def says(self) -> Mapping[str, Any]:
        return {"readSchema": self._columns.json()}

    @connector_method
    def rows(self) -> Any:
        """Spark's own rows."""
        return self._spark.createDataFrame(list(self._rows), self._columns)._jdf.queryExecution().executedPlan().executeCollect()


def value_at(values: Any, place: int, kind: IcebergType) -> Any:
    """The value at a place of a row, or of an array, of Spark's own; timestamps as microseconds since 1970-01-01 UTC."""
    if values.isNullAt(place):
        return None
    if isinstance(kind, StringType):
        return values.getUTF8String(place).toString()
    if isinstance(kind, ListType):
        return _values_of(values.getArray(place), kind.element)
    if isinstance(kind, MapType):
        found = values.getMap(place)
        return dict(zip(_values_of(found.keyArray(), kind.key_type), _values_of(found.valueArray(), kind.value_type), strict=True))
    return getattr(values, _GETTERS[type(kind)])(place)


def _values_of(array: Any, kind: IcebergType) -> list[Any]:
    return [value_at(array, place, kind) for place in range(array.numElements())]


def _table_name(spark: SparkSession, catalog_name: str, text: str) -> tuple[str, ...]:
    """The parts of a table's name; one without a namespace lies in the session's current one, where that is of this catalog."""
    try:
        parts = list(spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(text).mkString("\0").split("\0"))
    except PySparkException as error:
        raise InvalidInputError(f"{text!r} names no table", next_step="write it as namespace.table, odd names in backticks") from error
    if len(parts) > 2 and parts[0] == catalog_name:
        parts = parts[1:]
    if len(parts) == 1 and spark.catalog.currentCatalog() == catalog_name:
        parts = [*spark.catalog.currentDatabase().split("."), *parts]
    if len(parts) < 2:
        raise InvalidInputError(f"{text!r} names no table", next_step="write it as namespace.table")
    return tuple(parts)
