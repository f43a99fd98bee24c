"""The entry kinds of the lists `schemas`, `partition-specs` and `sort-orders`, whose values are defined outside of this package.

The kinds of the other lists are defined with their values, in `snapshot.py`, `table_history.py`, `statistics_file.py` and `encrypted_key.py`.
Spec: Appendix C.
"""

from typing import Any

from icefloe.spec.metadata.raw_entries import EntryKind
from icefloe.spec.partitioning.partition_spec import PartitionSpec, spec_from_json, spec_to_json
from icefloe.spec.partitioning.sort_order import SortOrder, sort_order_from_json, sort_order_to_json
from icefloe.spec.schema.schema_json import schema_from_json, schema_to_json


def _spec(value: Any, path: str) -> PartitionSpec:
    return spec_from_json(value, where=path)


def _sort_order(value: Any, path: str) -> SortOrder:
    return sort_order_from_json(value, where=path)


SCHEMAS = EntryKind("schemas", schema_from_json, schema_to_json, id_key="schema-id", default_id=0)
PARTITION_SPECS = EntryKind("partition-specs", _spec, spec_to_json, id_key="spec-id")
SORT_ORDERS = EntryKind("sort-orders", _sort_order, sort_order_to_json, id_key="order-id")
