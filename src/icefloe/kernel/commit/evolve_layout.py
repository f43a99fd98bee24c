"""Changes of how new data is laid out: of the partition spec and the sort order, as the updates that make them. Files that are there stay as they are.

What changes of a spec are right is `kernel/partitioning/spec_evolution.py`. Spec: Partition Evolution; Sorting.
"""

from collections.abc import Sequence

from icefloe.kernel.metadata.layout_updates import LAST_ADDED, AddPartitionSpec, AddSortOrder, SetDefaultSortOrder, SetDefaultSpec
from icefloe.kernel.metadata.metadata_updates import Update
from icefloe.kernel.metadata.requirement import (
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    Requirement,
)
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.sort_order import SortField, SortOrder
from icefloe.kernel.partitioning.spec_evolution import SpecChange, evolve_spec


def spec_requirements(base: TableMetadata) -> tuple[Requirement, ...]:
    """What must not have moved for a change of the spec to hold: the default spec, and the partition field ids given out."""
    return (
        AssertTableUUID(base.table_uuid),
        AssertDefaultSpecId(base.default_spec_id),
        AssertLastAssignedPartitionId(base.last_partition_id),
    )


def spec_updates(base: TableMetadata, changes: Sequence[SpecChange]) -> tuple[Update, ...]:
    """The updates that make the changes on this base; none where the spec stays as it is. Raises `InvalidPartitionSpecError`."""
    spec = evolve_spec(base.spec(), changes, base.schema(), format_version=base.format_version)
    return () if spec.is_equivalent(base.spec()) else (AddPartitionSpec(spec), SetDefaultSpec(LAST_ADDED))


def sort_order_requirements(base: TableMetadata) -> tuple[Requirement, ...]:
    """What must not have moved for a new sort order to hold: the one it replaces."""
    return (AssertTableUUID(base.table_uuid), AssertDefaultSortOrderId(base.default_sort_order_id))


def sort_order_updates(base: TableMetadata, fields: Sequence[SortField]) -> tuple[Update, ...]:
    """The updates that make these the table's sort order; none where they are. No fields: new data is not sorted."""
    if tuple(fields) == base.sort_order().fields:
        return ()
    return (AddSortOrder(SortOrder(*fields)), SetDefaultSortOrder(LAST_ADDED))
