"""Type promotion: the types that a column's type may be changed to without a rewrite of its files, and the conversion of its defaults.

Spec: Schema Evolution (valid type promotions by version).
"""

from typing import Any

from icefloe.errors import InvalidSchemaError
from icefloe.spec.dates_and_times import MICROS_PER_DAY, NANOS_PER_DAY, format_date
from icefloe.spec.literals import INTEGER_RANGES
from icefloe.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampNanoType,
    TimestampType,
    UnknownType,
)

_ALWAYS = {(IntegerType(), LongType()), (FloatType(), DoubleType())}
# The first format version in which a date may become a timestamp, and an unknown column may get any type.
_MORE_PROMOTIONS_VERSION = 3
_UNITS_PER_DAY = {TimestampType(): MICROS_PER_DAY, TimestampNanoType(): NANOS_PER_DAY}


def promotions(format_version: int) -> str:
    """Describe the promotions of a format version, for messages."""
    listed = "int to long, float to double, and a decimal to one of more digits and the same scale"
    if format_version < _MORE_PROMOTIONS_VERSION:
        return f"{listed}; from format version {_MORE_PROMOTIONS_VERSION} on also date to timestamp or timestamp_ns"
    return f"{listed}; date to timestamp or timestamp_ns, and unknown to any type"


def is_promotion(old: IcebergType, new: IcebergType, format_version: int) -> bool:
    """Return True if a column's type may change from `old` to `new` without a rewrite of its files. A type is not a promotion of itself."""
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision < new.precision
    if (old, new) in _ALWAYS:
        return True
    if format_version < _MORE_PROMOTIONS_VERSION or old == new:
        return False
    return isinstance(old, UnknownType) or (isinstance(old, DateType) and new in _UNITS_PER_DAY)


def check_promotion(old: IcebergType, new: IcebergType, column: str, format_version: int) -> None:
    """Refuse a change of a column's type that is not a promotion.

    Raises:
        InvalidSchemaError: The change is not a promotion, so existing files would have to be rewritten. The message contains the column and the allowed
            promotions.
    Spec: Schema Evolution (valid type promotions by version).
    """
    if not is_promotion(old, new, format_version):
        raise InvalidSchemaError(
            f"column {column} cannot change from {old} to {new}: a type may only widen ({promotions(format_version)})",
            next_step=f"add a new column of type {new} and write the values there",
        )


def promoted_value(old: IcebergType, new: IcebergType, value: Any) -> Any:
    """Convert a physical value of `old` to the promoted type `new`. None stays None.

    Raises:
        InvalidSchemaError: The date is outside of the range of the timestamp type.
    """
    if value is None or not (isinstance(old, DateType) and new in _UNITS_PER_DAY):
        return value
    units = int(value) * _UNITS_PER_DAY[new]
    low, high = INTEGER_RANGES[type(new)]
    if not low <= units <= high:
        raise InvalidSchemaError(
            f"the default {format_date(value)} is outside of the range of {new}", next_step="give the column another default first"
        )
    return units
