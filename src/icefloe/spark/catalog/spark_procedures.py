"""`SparkProcedure`: implements Spark's interfaces for procedures, so that `CALL lake.system.name(...)` runs a procedure of `icefloe.procedures`."""

from collections.abc import Mapping
from typing import Any, ClassVar

from py4j.java_gateway import JavaObject
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.procedures.procedure import Parameter, Procedure, Rows, WiderRows
from icefloe.spark.bridge.callback import ConnectorObject, connector_method
from icefloe.spark.bridge.gateway import java_array, java_class
from icefloe.spark.catalog.source_tables import source_folders
from icefloe.spark.scan.spark_cache import recache
from icefloe.spark.scan.sql_filter import filter_of_sql
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.schema.schema import Schema
from icefloe.spec.sql_tokens import StatementSyntaxError
from icefloe.spec.types import BooleanType, IcebergType, IntegerType, ListType, LongType, MapType, NestedField, StringType, TimestamptzType

_PARTITION_FILTER = "partition_filter"
_PROCEDURES = "org.apache.spark.sql.connector.catalog.procedures"
# Methods of Spark's `SpecializedGetters`, by Iceberg type.
_GETTERS: Mapping[type[IcebergType], str] = {
    BooleanType: "getBoolean",
    IntegerType: "getInt",
    LongType: "getLong",
    TimestamptzType: "getLong",
}


class SparkProcedure(ConnectorObject):
    """A procedure of a catalog, which Spark finds by its name and has not bound yet.

    The bound procedure has a separate class, because Spark would treat an object with both interfaces as bound while it still analyzes arguments such as
    `current_timestamp() - INTERVAL 5 DAYS`.
    """

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.procedures.UnboundProcedure",)

    def __init__(self, spark: SparkSession, catalog_name: str, catalog: Catalog, procedure: Procedure) -> None:
        self._spark = spark
        self._catalog_name = catalog_name
        self._catalog = catalog
        self._procedure = procedure

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        return {"name": self._procedure.name, "description": self._procedure.description}

    @connector_method
    def bind(self, _: str) -> "BoundSparkProcedure":
        """Return the procedure that Spark calls, after casting the arguments to the types of its parameters."""
        return BoundSparkProcedure(self._spark, self._catalog_name, self._catalog, self._procedure)


class BoundSparkProcedure(SparkProcedure):
    """A procedure that Spark calls with arguments of its parameters' types."""

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.procedures.BoundProcedure",)

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        return {**super().constants(), "isDeterministic": False}

    @connector_method
    def parameters(self) -> Any:
        """Return a Java array of Spark's `ProcedureParameter` objects. The default of an optional parameter is NULL, which `call` leaves out."""
        holder = java_class(self._spark, f"{_PROCEDURES}.ProcedureParameter")
        spark_parameters = []
        for parameter in self._procedure.parameters:
            struct = schema_to_struct(Schema(NestedField(1, parameter.name, parameter.kind)), field_ids=False)
            builder = getattr(holder, "in")(parameter.name, self._spark._jsparkSession.parseDataType(struct.fields[0].dataType.json()))
            spark_parameters.append((builder if parameter.required else builder.defaultValue("NULL")).build())
        return java_array(self._spark, f"{_PROCEDURES}.ProcedureParameter", spark_parameters)

    @connector_method
    def call(self, row: JavaObject) -> "ProcedureResultScan":
        """Run the procedure and return a scan of its result. `row` is a row of Spark with the arguments in the order of the parameters."""
        values = ((parameter, value_at(row, place, parameter.kind)) for place, parameter in enumerate(self._procedure.parameters))
        arguments = {parameter.name: self._argument(parameter, value) for parameter, value in values if value is not None}
        self._resolve_source_tables(arguments)
        for parameter in self._procedure.parameters:
            if parameter.is_view and parameter.name in arguments:
                arguments[parameter.name] = _view(self._spark, arguments[parameter.name])
            if parameter.is_filter and parameter.name in arguments:
                schema = self._catalog.load_table(arguments["table"]).schema()
                expression = filter_of_sql(self._spark, arguments[parameter.name], schema)
                if expression is not None:  # another text may be a filter of Icefloe; else the error lists what a filter may have
                    arguments[parameter.name] = expression
        try:
            rows = self._procedure(self._catalog, **arguments)
        except StatementSyntaxError as error:  # Spark would show its position in the text of CALL
            raise InvalidInputError(f"cannot parse {error.text!r} in an argument of {self._procedure.name}: {error}") from error
        more_columns = rows.more if isinstance(rows, WiderRows) else ()
        numbered = enumerate(more_columns, len(self._procedure.output) + 1)
        added_fields = (NestedField(100 * place, name, field_type, required=True) for place, (name, field_type) in numbered)
        output = schema_to_struct(Schema(*self._procedure.output, *added_fields), field_ids=False)
        for parameter in self._procedure.parameters:
            if parameter.is_table and parameter.name in arguments:
                recache(self._spark, [self._catalog_name, *arguments[parameter.name]])
        return ProcedureResultScan(self._spark, rows, output)

    def _resolve_source_tables(self, arguments: dict[str, Any]) -> None:
        """Replace an argument that is the name of a table of Spark's session catalog by the folders of the table, with the partition filter applied."""
        for parameter in self._procedure.parameters:
            if parameter.is_source and parameter.name in arguments:
                folders = source_folders(
                    self._spark, arguments[parameter.name], arguments.get(_PARTITION_FILTER) or {}, self._catalog.table_exists
                )
                if folders is not None:
                    arguments[parameter.name] = folders
                    arguments.pop(_PARTITION_FILTER, None)

    def _argument(self, parameter: Parameter, value: Any) -> Any:
        if parameter.is_table:
            return _table_name(self._spark, self._catalog_name, value)
        return value // 1000 if isinstance(parameter.kind, TimestamptzType) else value


def _view(spark: SparkSession, name: str) -> DataFrame:
    """Return the rows of a view or table of the session. Raises `InvalidInputError` if it does not exist."""
    try:
        return spark.table(name)
    except AnalysisException as error:
        raise InvalidInputError(
            f"the view {name} cannot be used: {error.getCondition() or error}", next_step="name a view or a table of this session"
        ) from error


class ProcedureResultScan(ConnectorObject):
    """A scan of the rows that a procedure has returned; Spark shows them as the result of CALL."""

    interfaces: ClassVar[tuple[str, ...]] = ("read.LocalScan",)

    def __init__(self, spark: SparkSession, rows: Rows, columns: StructType) -> None:
        self._spark = spark
        self._rows = rows
        self._columns = columns

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        return {"readSchema": self._columns.json()}

    @connector_method
    def rows(self) -> Any:
        """Return the rows as a Java array of Spark's internal rows."""
        # Spark 4.0 cannot unpickle the classes of texts, such as those of `StrEnum`.
        plain = [tuple(str(value) if isinstance(value, str) else value for value in row) for row in self._rows]
        return self._spark.createDataFrame(plain, self._columns)._jdf.queryExecution().executedPlan().executeCollect()


def value_at(values: Any, place: int, field_type: IcebergType) -> Any:
    """Return the value at an index of an internal row or array of Spark; None for null. Timestamps are microseconds since 1970-01-01 UTC."""
    if values.isNullAt(place):
        return None
    if isinstance(field_type, StringType):
        return values.getUTF8String(place).toString()
    if isinstance(field_type, ListType):
        return _values_of(values.getArray(place), field_type.element)
    if isinstance(field_type, MapType):
        entries = values.getMap(place)
        keys, members = _values_of(entries.keyArray(), field_type.key_type), _values_of(entries.valueArray(), field_type.value_type)
        return dict(zip(keys, members, strict=True))
    return getattr(values, _GETTERS[type(field_type)])(place)


def _values_of(array: Any, element_type: IcebergType) -> list[Any]:
    return [value_at(array, place, element_type) for place in range(array.numElements())]


def _table_name(spark: SparkSession, catalog_name: str, text: str) -> tuple[str, ...]:
    """Parse the name of a table in an argument: return the namespace and the table, without the catalog.

    A name without a namespace belongs to the session's current namespace if the current catalog is this one. Raises `InvalidInputError` for other names.
    """
    try:
        parts = list(spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(text).mkString("\0").split("\0"))
    except PySparkException as error:
        raise InvalidInputError(
            f"{text!r} is not the name of a table", next_step="write it as namespace.table, unusual names in backticks"
        ) from error
    if len(parts) > 2 and parts[0] == catalog_name:
        parts = parts[1:]
    manager = spark._jsparkSession.sessionState().catalogManager()
    if len(parts) == 1 and manager.currentCatalog().name() == catalog_name:
        parts = [*manager.currentNamespace(), *parts]
    if len(parts) < 2:
        raise InvalidInputError(f"{text!r} is not the name of a table", next_step="write it as namespace.table")
    return tuple(parts)
