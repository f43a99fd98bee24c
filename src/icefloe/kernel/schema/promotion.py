"""Which type a column may take on without its files being written again.

Floor: kernel.schema. Spec: Schema Evolution (valid type promotions of versions 1 and 2).
"""

from icefloe.kernel.types import DecimalType, DoubleType, FloatType, IcebergType, IntegerType, LongType

PROMOTIONS = "int to long, float to double, and a decimal to one of more digits and the same scale"

_PROMOTIONS = {(IntegerType(), LongType()), (FloatType(), DoubleType())}


def is_promotion(old: IcebergType, new: IcebergType) -> bool:
    """Whether every value of `old` is one of `new`, in files of the old type too. A type is no promotion of itself."""
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision < new.precision
    return (old, new) in _PROMOTIONS
