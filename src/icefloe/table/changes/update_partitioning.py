"""`UpdateSpec` and `UpdateSortOrder`: what `table.update_spec()` and `table.update_sort_order()` give: changes of how new data is laid out.

Files that are there stay as they are and are still pruned by their own spec. Spec: Partition Evolution; Sorting.
"""

from typing import Self

from icefloe.kernel.commit.evolve_layout import sort_order_requirements, sort_order_updates, spec_requirements, spec_updates
from icefloe.kernel.commit.metadata_change import MetadataChange
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.sort_order import NullOrder, SortDirection, SortField, SortOrder, check_sort_order
from icefloe.kernel.partitioning.source_columns import to_transform
from icefloe.kernel.partitioning.spec_evolution import (
    AddPartitionField,
    PartitionSpecUpdate,
    RemovePartitionField,
    RenamePartitionField,
    SpecChange,
)
from icefloe.kernel.partitioning.transforms import IdentityTransform, Transform
from icefloe.table.pending_change import Commit, PendingChange


class UpdateSpec(PendingChange):
    """Changes of the partition spec; a wrong one is refused where it is asked for. Use it in a `with` statement, or call `commit()`."""

    def __init__(self, base: TableMetadata, commit: Commit, *, case_sensitive: bool = True) -> None:
        self._base = base
        self._commit = commit
        self._case_sensitive = case_sensitive
        self._evolving = PartitionSpecUpdate(base.spec(), base.schema(), format_version=base.format_version)
        self._changes: list[SpecChange] = []

    def add_field(self, source_column_name: str, transform: str | Transform, partition_field_name: str | None = None) -> Self:
        """Partitions new data by a transform of a column too, such as `DayTransform()` or `"bucket[16]"`. Without a name the field gets Java's.

        Raises:
            InvalidSchemaError: there is no such column.
            InvalidPartitionSpecError: the transform does not fit the column, or the field or its name is there already.
        """
        source_id = self._base.schema().find_field(source_column_name, case_sensitive=self._case_sensitive).field_id
        return self._apply(AddPartitionField(source_id=source_id, transform=to_transform(transform), name=partition_field_name))

    def add_identity(self, source_column_name: str) -> Self:
        """Partitions new data by the column's own values too. Raises as `add_field` does."""
        return self.add_field(source_column_name, IdentityTransform())

    def remove_field(self, name: str) -> Self:
        """New data is no longer partitioned by this field; in a table of version 1 it stays as void. Raises `InvalidPartitionSpecError`."""
        return self._apply(RemovePartitionField(name=name))

    def rename_field(self, name: str, new_name: str) -> Self:
        """Another name for the field, which keeps its id. Raises `InvalidPartitionSpecError`."""
        return self._apply(RenamePartitionField(name=name, new_name=new_name))

    def spec(self) -> PartitionSpec:
        """The spec as the changes so far make it; its id and those of its new fields are given when it is committed."""
        return self._evolving.finished()

    def commit(self) -> None:
        """Commits the changes together. On a table that others wrote to meanwhile they are made again, where its spec is still the same.

        Raises:
            CommitConflictError: another writer changed the partition spec. Nothing is changed: refresh the table and look again.
        """
        self._commit(MetadataChange(lambda base: spec_updates(base, self._changes), spec_requirements(self._base)))

    def _apply(self, change: SpecChange) -> Self:
        self._changes.append(self._evolving.apply(change))  # with its name, which stays where the column is renamed meanwhile
        return self


class UpdateSortOrder(PendingChange):
    """A new sort order in place of the table's, key by key; without any, new data is no longer sorted. Commits as `UpdateSpec` does."""

    def __init__(self, base: TableMetadata, commit: Commit, *, case_sensitive: bool = True) -> None:
        self._base = base
        self._commit = commit
        self._case_sensitive = case_sensitive
        self._fields: list[SortField] = []

    def asc(self, source_column_name: str, transform: str | Transform = "identity", null_order: NullOrder | None = None) -> Self:
        """Smallest first; nulls first unless said otherwise. Raises `InvalidSchemaError`, `InvalidInputError`."""
        return self._add(source_column_name, transform, SortDirection.ASC, null_order)

    def desc(self, source_column_name: str, transform: str | Transform = "identity", null_order: NullOrder | None = None) -> Self:
        """Largest first; nulls last unless said otherwise. Raises `InvalidSchemaError`, `InvalidInputError`."""
        return self._add(source_column_name, transform, SortDirection.DESC, null_order)

    def commit(self) -> None:
        """Makes the keys the table's sort order. One that the table had before keeps its id.

        Raises:
            CommitConflictError: another writer changed the sort order. Nothing is changed: refresh the table and look again.
        """
        self._commit(MetadataChange(lambda base: sort_order_updates(base, self._fields), sort_order_requirements(self._base)))

    def _add(self, column: str, transform: str | Transform, direction: SortDirection, null_order: NullOrder | None) -> Self:
        source_id = self._base.schema().find_field(column, case_sensitive=self._case_sensitive).field_id
        key = SortField(source_id, to_transform(transform), direction, null_order)
        check_sort_order(SortOrder(*self._fields, key), self._base.schema())
        self._fields.append(key)
        return self
