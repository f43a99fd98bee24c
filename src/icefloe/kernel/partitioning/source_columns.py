"""The source columns of partition and sort fields in JSON: `source-id` for one, `source-ids` for a transform of several.

partitioning, below partition specs and sort orders. Spec: Appendix C, Partition Specs, Sort Orders.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from icefloe.errors import InvalidPartitionSpecError, Problem
from icefloe.kernel.partitioning.transforms import Transform, UnknownTransform, VoidTransform, parse_transform


def sources_to_json(source_ids: Sequence[int]) -> dict[str, Any]:
    """`source-id` alone for one column, `source-ids` alone for several."""
    return {"source-id": source_ids[0]} if len(source_ids) == 1 else {"source-ids": list(source_ids)}


def sources_from_json(item: Mapping[str, Any], where: str, problems: list[Problem]) -> tuple[int, ...]:
    """The field ids of the columns of a field's JSON object, at least one where no problem was added. A list of one means what `source-id` does."""
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
    """The transform of a text over these columns. Those known here take one column, so that any text over several but `void` is an unknown one.

    Raises:
        InvalidPartitionSpecError: as `parse_transform`.
    """
    parsed = parse_transform(text)
    return parsed if len(source_ids) == 1 or isinstance(parsed, VoidTransform) else UnknownTransform(text)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def to_transform(given: Transform | str) -> Transform:
    """Return the transform, of its text such as `bucket[16]` too. Raises `InvalidPartitionSpecError` for anything else."""
    if isinstance(given, Transform):
        return given
    if not isinstance(given, str):
        raise InvalidPartitionSpecError(
            f"{given!r} is no transform", next_step='pass one such as DayTransform(), or its text such as "bucket[16]"'
        )
    return parse_transform(given)
