"""Physical values as Spark takes a constant of a file: the value that every row of the file has in a column. Spec: Column Projection."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from icefloe.kernel.types import BinaryType, DateType, FixedType, IcebergType, PrimitiveType, TimestampType, TimestamptzType, UUIDType
from icefloe.kernel.values import physical_arrow_type
from icefloe.spark.types.arrow_conversion import to_spark_form

# Arrow's type of a constant on its way to Spark, where it is not that of the physical values.
_CONSTANT_TYPES: Mapping[type[IcebergType], Any] = {
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"),
    FixedType: pa.binary(),
    BinaryType: pa.binary(),
}


def as_constant(values: Any, kind: IcebergType) -> Any:
    """An Arrow array of physical values of a type, null where a file has none, in the Arrow type that Spark gives the column."""
    if pa.types.is_null(values.type):
        values = values.cast(physical_arrow_type(kind)) if isinstance(kind, PrimitiveType) else values
    if isinstance(kind, UUIDType):
        return to_spark_form(values, kind)
    target = _CONSTANT_TYPES.get(type(kind))
    return values if target is None or values.type == target else values.cast(target)
