"""Changes of the partition spec and the sort order, as metadata updates. They apply to new data; existing files do not change.

The rules for changes of a spec are in `spec/partitioning/spec_evolution.py`. JAVA: UpdatePartitionSpec, ReplaceSortOrder.
Spec: Partition Evolution; Sorting.
"""

from collections.abc import Sequence

from icefloe.spec.metadata.layout_updates import LAST_ADDED, AddPartitionSpec, AddSortOrder, SetDefaultSortOrder, SetDefaultSpec
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.requirement import (
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    Requirement,
)
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.sort_order import SortField, SortOrder
from icefloe.spec.partitioning.spec_evolution import SpecChange, evolve_spec


def spec_requirements(base: TableMetadata) -> tuple[Requirement, ...]:
    """Return the requirements of a change of the spec: that the default spec and the last assigned partition field id have not changed."""
    return (
        AssertTableUUID(base.table_uuid),
        AssertDefaultSpecId(base.default_spec_id),
        AssertLastAssignedPartitionId(base.last_partition_id),
    )


def spec_updates(base: TableMetadata, changes: Sequence[SpecChange]) -> tuple[Update, ...]:
    """Return the updates that apply the changes to the default spec of a base; empty if the spec stays the same.

    Raises:
        InvalidPartitionSpecError: a change violates a rule of partition evolution.
    """
    spec = evolve_spec(base.spec(), changes, base.schema(), format_version=base.format_version)
    return () if spec.is_equivalent(base.spec()) else (AddPartitionSpec(spec), SetDefaultSpec(LAST_ADDED))


def sort_order_requirements(base: TableMetadata) -> tuple[Requirement, ...]:
    """Return the requirements of a change of the sort order: that the default sort order has not changed."""
    return (AssertTableUUID(base.table_uuid), AssertDefaultSortOrderId(base.default_sort_order_id))


def sort_order_updates(base: TableMetadata, fields: Sequence[SortField]) -> tuple[Update, ...]:
    """Return the updates that set the default sort order; empty if it stays the same. An order without fields leaves new data unsorted."""
    if tuple(fields) == base.sort_order().fields:
        return ()
    return (AddSortOrder(SortOrder(*fields)), SetDefaultSortOrder(LAST_ADDED))
