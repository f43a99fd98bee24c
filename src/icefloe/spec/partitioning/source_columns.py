"""Source columns of partition and sort fields: their JSON (`source-id` for one column, `source-ids` for several), and the effect of type promotions.

Spec: Appendix C, Partition Specs, Sort Orders; Schema Evolution, on `source-id` and `source-ids`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from icefloe.errors import InvalidPartitionSpecError, Problem
from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    parse_transform,
)
from icefloe.spec.types import DateType, IcebergType, PrimitiveType, UnknownType


def sources_to_json(source_ids: Sequence[int]) -> dict[str, Any]:
    """Return the JSON key and value of source columns: `source-id` for one column, `source-ids` for several."""
    return {"source-id": source_ids[0]} if len(source_ids) == 1 else {"source-ids": list(source_ids)}


def sources_from_json(item: Mapping[str, Any], where: str, problems: list[Problem]) -> tuple[int, ...]:
    """Return the field ids of the source columns in a field's JSON object.

    Args:
        item: The field's JSON object. A list `source-ids` with one id means the same as `source-id`.
        where: JSON path of the object.
        problems: The list to which problems are appended. If there is no problem, the result has at least one id.
    """
    single, several = item.get("source-id"), item.get("source-ids")
    if several is None or (isinstance(several, list) and len(several) < 2 and single is not None):
        if not _is_id(single):
            problems.append(Problem(where=f"{where}.source-id", what="expected an integer"))
        return (single,) if isinstance(single, int) else ()
    if not isinstance(several, list) or not several or not all(map(_is_id, several)):
        problems.append(Problem(where=f"{where}.source-ids", what="expected a list of at least one integer"))
        return ()
    return tuple(several)


def transform_of(text: str, source_ids: Sequence[int]) -> Transform:
    """Return the transform with this text and these source columns.

    All supported transforms have one source column, so with several columns every text except `void` is an unknown transform.

    Raises:
        InvalidPartitionSpecError: As in `parse_transform`.
    """
    parsed = parse_transform(text)
    return parsed if len(source_ids) == 1 or isinstance(parsed, VoidTransform) else UnknownTransform(text)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def to_transform(transform: Transform | str) -> Transform:
    """Return a transform that is passed as an object, or as its text, such as `bucket[16]`.

    Raises:
        InvalidPartitionSpecError: The value is neither a transform nor the text of a transform.
    """
    if isinstance(transform, Transform):
        return transform
    if not isinstance(transform, str):
        raise InvalidPartitionSpecError(
            f"{transform!r} is not a transform", next_step='pass one such as DayTransform(), or its text such as "bucket[16]"'
        )
    return parse_transform(transform)


def reason_values_change(transform: Transform, before: IcebergType, after: IcebergType) -> str | None:
    """Return the reason why a type promotion would change the partition values of existing rows; None if it does not.

    Most transforms return the same value for both types: a bucket is always computed from the widest type, and a date has the year, month and day of its
    midnight.
    """
    if isinstance(transform, VoidTransform) or not isinstance(before, PrimitiveType):
        return None
    if not isinstance(after, PrimitiveType) or not transform.can_transform(after):
        return f"which does not work on {after}"
    if isinstance(before, UnknownType):
        return None  # every value is null, and so is its partition value
    if isinstance(transform, UnknownTransform):
        return "an unknown transform, whose value may change"
    if isinstance(before, DateType) and isinstance(transform, IdentityTransform | BucketTransform):
        return "whose value would change: a date and the timestamp of its midnight are different numbers"
    if isinstance(transform, TruncateTransform) and transform.wrapped_result(before) is not None:
        return f"whose value would change for the smallest values of {before}, which wrap around"
    return None
