"""`hive_type`: the types of columns in the syntax of Hive and Glue, for metastores that show the columns of a table.

Readers of Iceberg tables use the schema in the metadata file instead. Origin: Java's `HiveSchemaUtil` and `IcebergToGlueConverter`, which agree.
"""

from collections.abc import Mapping
from functools import partial

from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

_NAMES: Mapping[type, str] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "bigint",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestampType: "timestamp",
    TimestamptzType: "timestamp",
    TimestampNanoType: "timestamp",
    TimestamptzNanoType: "timestamp",
    FixedType: "binary",
    BinaryType: "binary",
}
# Hive has no equivalents for times, uuids, variants, geometries and unknown values.
_OTHERS = "string"


ZONED_TIMESTAMP = "timestamp with local time zone"


def hive_type(kind: IcebergType, *, has_zoned_timestamps: bool = False) -> str:
    """Return the text of a type in Hive's syntax.

    Args:
        kind: The Iceberg type.
        has_zoned_timestamps: Whether the metastore supports timestamps with local time zone: Hive does from version 3 on, Glue does not.
    """
    inner = partial(hive_type, has_zoned_timestamps=has_zoned_timestamps)
    if has_zoned_timestamps and isinstance(kind, TimestamptzType | TimestamptzNanoType):
        return ZONED_TIMESTAMP
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, StructType):
        return f"struct<{','.join(f'{field.name}:{inner(field.field_type)}' for field in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"array<{inner(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{inner(kind.key_type)},{inner(kind.value_type)}>"
    return _NAMES.get(type(kind), _OTHERS)
