"""`reason_values_change`: whether the partition values of existing rows stay right when the source column of a partition field is promoted.

Spec: Schema Evolution, on `source-id` and `source-ids`.
"""

from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
)
from icefloe.spec.types import DateType, IcebergType, PrimitiveType, UnknownType


def reason_values_change(transform: Transform, before: IcebergType, after: IcebergType) -> str | None:
    """Return why the partition values of existing rows would change with a promotion, or None: most transforms return the same for the wider type.

    A bucket hash is that of the wider number already, and years, months and days since 1970 are the same for a date and its midnight.
    """
    if isinstance(transform, VoidTransform) or not isinstance(before, PrimitiveType):
        return None
    if not isinstance(after, PrimitiveType) or not transform.can_transform(after):
        return f"which does not work on {after}"
    if isinstance(before, UnknownType):
        return None  # every value is null, and so is its transform
    if isinstance(transform, UnknownTransform):
        return "an unknown transform, whose value may change"
    if isinstance(before, DateType) and isinstance(transform, IdentityTransform | BucketTransform):
        return "whose value would change: a date and the timestamp of its midnight are different numbers"
    if isinstance(transform, TruncateTransform) and transform.wrapped_result(before) is not None:
        return f"whose value would change for the smallest values of {before}, which wrap around"
    return None
