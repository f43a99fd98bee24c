"""`hive_type`: types of columns as Hive and Glue write them, for catalogs that show the columns of a table.

Readers of Iceberg take the schema from the metadata file. Origin: Java's `HiveSchemaUtil` and `IcebergToGlueConverter`, which agree.
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
# Hive has no type for times, uuids, variants, shapes and unknown values.
_OTHERS = "string"


ZONED_TIMESTAMP = "timestamp with local time zone"


def hive_type(kind: IcebergType, *, has_zoned_timestamps: bool = False) -> str:
    """Return the type's text in Hive's syntax.

    Args:
        kind: A type of Iceberg.
        has_zoned_timestamps: The reader has Hive's type of instants, as Hive has from version 3 on; Glue has not.
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
