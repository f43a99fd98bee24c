"""The lists of a table's metadata whose entries are values of lower rooms: schemas, partition specs, sort orders, statistics files.

Snapshots and the logs have their kinds beside their values, in `snapshot.py` and `history.py`. Floor: kernel.metadata. Spec: Appendix C.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from icefloe.errors import FormatError, InvalidInputError, MetadataFormatError, Problem
from icefloe.kernel.metadata.raw_entries import EntryKind
from icefloe.kernel.partitioning.partition_spec import PartitionSpec, spec_from_json, spec_to_json
from icefloe.kernel.partitioning.sort_order import SortOrder, sort_order_from_json, sort_order_to_json
from icefloe.kernel.schema.json_shape import Key, a_long, a_string, an_array, an_int, object_problems, refuse
from icefloe.kernel.schema.schema_json import schema_from_json, schema_to_json

# The first partition field id, so that they do not meet column ids in a v1 manifest. Spec: Partition Evolution.
FIRST_PARTITION_FIELD_ID = 1000

_SPEC_KEYS = (Key("spec-id", an_int), Key("fields", an_array))
_SPEC_FIELD_KEYS = (Key("source-id", an_int), Key("field-id", an_int), Key("transform", a_string), Key("name", a_string))
_ORDER_KEYS = (Key("order-id", an_int), Key("fields", an_array))
_ORDER_FIELD_KEYS = (Key("source-id", an_int), Key("transform", a_string), Key("direction", a_string), Key("null-order", a_string))
_STATISTICS_KEYS = (Key("snapshot-id", a_long), Key("statistics-path", a_string))


def with_partition_field_ids(fields: list[Any]) -> list[Any]:
    """The fields of a v1 spec, given the ids that v1 readers agree on: counted up from 1000. Spec: Partition Evolution."""
    if any(not isinstance(field, Mapping) or "field-id" in field for field in fields):
        return fields
    return [{**field, "field-id": FIRST_PARTITION_FIELD_ID + position} for position, field in enumerate(fields)]


def _spec(value: Any, path: str) -> PartitionSpec:
    if isinstance(value, Mapping) and isinstance(value.get("fields"), list):
        value = {**value, "fields": with_partition_field_ids(value["fields"])}
    refuse(list(_listed_problems(value, path, _SPEC_KEYS, _SPEC_FIELD_KEYS)), "the partition spec")
    try:
        return spec_from_json(value)
    except (FormatError, InvalidInputError) as error:
        raise MetadataFormatError(
            "the partition spec breaks the rules of the format", problems=[Problem(where=path, what=str(error))]
        ) from error


def _sort_order(value: Any, path: str) -> SortOrder:
    refuse(list(_listed_problems(value, path, _ORDER_KEYS, _ORDER_FIELD_KEYS)), "the sort order")
    try:
        return sort_order_from_json(value)
    except (FormatError, InvalidInputError) as error:
        raise MetadataFormatError(
            "the sort order breaks the rules of the format", problems=[Problem(where=path, what=str(error))]
        ) from error


def _listed_problems(value: Any, path: str, keys: tuple[Key, ...], field_keys: tuple[Key, ...]) -> Iterator[Problem]:
    yield from object_problems(value, path, keys)
    if isinstance(value, Mapping) and isinstance(value.get("fields"), list):
        for position, field in enumerate(value["fields"]):
            yield from object_problems(field, f"{path}.fields[{position}]", field_keys)


def _statistics(value: Any, path: str) -> dict[str, Any]:
    refuse(list(object_problems(value, path, _STATISTICS_KEYS)), "the statistics file")
    return dict(value)


SCHEMAS = EntryKind("schemas", schema_from_json, schema_to_json, id_key="schema-id", default_id=0)
PARTITION_SPECS = EntryKind("partition-specs", _spec, spec_to_json, id_key="spec-id")
SORT_ORDERS = EntryKind("sort-orders", _sort_order, sort_order_to_json, id_key="order-id")
# Kept through every rewrite; what they point to is not read yet.
STATISTICS = EntryKind("statistics", _statistics, dict, id_key="snapshot-id")
PARTITION_STATISTICS = EntryKind("partition-statistics", _statistics, dict, id_key="snapshot-id")
