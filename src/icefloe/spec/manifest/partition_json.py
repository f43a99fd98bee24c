"""Partition values in the JSON of planned files: JSON single values of the specification; NaN and infinities, which JSON lacks, are text.

JAVA: SingleValueParser, whose writer quotes such numbers. Spec: Appendix D, JSON single-value serialization; REST catalog, ContentFile.
"""

import math
from typing import Any

from icefloe.spec.types import DoubleType, FloatType, PrimitiveType
from icefloe.spec.values import from_json_value, to_json_value

_BY_TEXT = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def partition_value_to_json(kind: PrimitiveType, value: Any) -> Any:
    """Return the JSON value of a physical value; None for null.

    Args:
        kind: The type of the partition field.
        value: The physical value, such as an int of days for a date.
    """
    if isinstance(kind, FloatType | DoubleType) and value is not None and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return to_json_value(kind, value)


def partition_value_from_json(kind: PrimitiveType, value: Any) -> Any:
    """Return the physical value of a JSON value; None for null.

    Args:
        kind: The type of the partition field.
        value: The JSON value.

    Raises:
        FormatError: The JSON value is not a value of the type.
    """
    if isinstance(kind, FloatType | DoubleType) and isinstance(value, str) and value in _BY_TEXT:
        return _BY_TEXT[value]
    return from_json_value(kind, value)
