"""`UpdateSpec` and `UpdateSortOrder`: changes of the partition spec and the sort order, started by `table.update_spec()` and `table.update_sort_order()`.

They apply to new data. Existing files stay as they are, and are still pruned by the spec that they were written with. Spec: Partition Evolution; Sorting.
"""

from typing import Self

from icefloe.commit.evolve_layout import sort_order_requirements, sort_order_updates, spec_requirements, spec_updates
from icefloe.commit.metadata_change import MetadataChange
from icefloe.operations.pending_change import Commit, PendingChange
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.sort_order import NullOrder, SortDirection, SortField, SortOrder, check_sort_order
from icefloe.spec.partitioning.source_columns import to_transform
from icefloe.spec.partitioning.spec_evolution import (
    AddPartitionField,
    PartitionSpecUpdate,
    RemovePartitionField,
    RenamePartitionField,
    SpecChange,
)
from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)


class UpdateSpec(PendingChange):
    """Changes of the partition spec, committed at the end of a `with` block or by `commit()`. An invalid change raises its error at once."""

    def __init__(self, base: TableMetadata, commit: Commit, *, case_sensitive: bool = True) -> None:
        self._base = base
        self._commit = commit
        self._case_sensitive = case_sensitive
        self._evolving = PartitionSpecUpdate(base.spec(), base.schema(), format_version=base.format_version)
        self._changes: list[SpecChange] = []

    def add_field(self, source_column_name: str, transform: str | Transform, partition_field_name: str | None = None) -> Self:
        """Add a partition field: a transform of a column.

        Args:
            source_column_name: the column's dotted name.
            transform: a transform such as `DayTransform()` or `"bucket[16]"`.
            partition_field_name: the field's name; by default the same name as in Java.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the column does not exist.
            InvalidPartitionSpecError: the transform does not fit the column, or the field or its name exists already.
        """
        source_id = self._base.schema().find_field(source_column_name, case_sensitive=self._case_sensitive).field_id
        return self._apply(AddPartitionField(source_id=source_id, transform=to_transform(transform), name=partition_field_name))

    def add_identity(self, source_column_name: str) -> Self:
        """Add a partition field with the column's own values.

        Args:
            source_column_name: the column's dotted name.

        Returns:
            This update.

        Raises:
            InvalidSchemaError, InvalidPartitionSpecError: as for `add_field`.
        """
        return self.add_field(source_column_name, IdentityTransform())

    def identity(self, source_column_name: str, partition_field_name: str | None = None) -> Self:
        """Add a partition field with the column's own values.

        Args:
            source_column_name: the column's dotted name.
            partition_field_name: the field's name; by default the same name as in Java.

        Returns:
            This update.

        Raises:
            InvalidSchemaError, InvalidPartitionSpecError: as for `add_field`.
        """
        return self.add_field(source_column_name, IdentityTransform(), partition_field_name)

    def year(self, source_column_name: str, partition_field_name: str | None = None) -> Self:
        """Add a partition field with the year of a date or timestamp.

        Args:
            source_column_name: the column's dotted name.
            partition_field_name: the field's name; by default the same name as in Java.

        Returns:
            This update.

        Raises:
            InvalidSchemaError, InvalidPartitionSpecError: as for `add_field`.
        """
        return self.add_field(source_column_name, YearTransform(), partition_field_name)

    def month(self, source_column_name: str, partition_field_name: str | None = None) -> Self:
        """Add a partition field with the year and month of a date or timestamp.

        Args:
            source_column_name: the column's dotted name.
            partition_field_name: the field's name; by default the same name as in Java.

        Returns:
            This update.

        Raises:
            InvalidSchemaError, InvalidPartitionSpecError: as for `add_field`.
        """
        return self.add_field(source_column_name, MonthTransform(), partition_field_name)

    def day(self, source_column_name: str, partition_field_name: str | None = None) -> Self:
        """Add a partition field with the day of a date or timestamp.

        Args:
            source_column_name: the column's dotted name.
            partition_field_name: the field's name; by default the same name as in Java.

        Returns:
            This update.

        Raises:
            InvalidSchemaError, InvalidPartitionSpecError: as for `add_field`.
        """
        return self.add_field(source_column_name, DayTransform(), partition_field_name)

    def hour(self, source_column_name: str, partition_field_name: str | None = None) -> Self:
        """Add a partition field with the day and hour of a timestamp.

        Args:
            source_column_name: the column's dotted name.
            partition_field_name: the field's name; by default the same name as in Java.

        Returns:
            This update.

        Raises:
            InvalidSchemaError, InvalidPartitionSpecError: as for `add_field`.
        """
        return self.add_field(source_column_name, HourTransform(), partition_field_name)

    def bucket(self, source_column_name: str, num_buckets: int, partition_field_name: str | None = None) -> Self:
        """Add a partition field with a hash of the column.

        Args:
            source_column_name: the column's dotted name.
            num_buckets: the number of hash values: they are from 0 to `num_buckets` - 1.
            partition_field_name: the field's name; by default the same name as in Java.

        Returns:
            This update.

        Raises:
            InvalidSchemaError, InvalidPartitionSpecError: as for `add_field`.
        """
        return self.add_field(source_column_name, BucketTransform(num_buckets), partition_field_name)

    def truncate(self, source_column_name: str, width: int, partition_field_name: str | None = None) -> Self:
        """Add a partition field with the truncated values of the column.

        Args:
            source_column_name: the column's dotted name.
            width: the length of a text in characters, or of binary values in bytes; numbers are rounded down to its multiples.
            partition_field_name: the field's name; by default the same name as in Java.

        Returns:
            This update.

        Raises:
            InvalidSchemaError, InvalidPartitionSpecError: as for `add_field`.
        """
        return self.add_field(source_column_name, TruncateTransform(width), partition_field_name)

    def remove_field(self, name: str) -> Self:
        """Remove a partition field: new data is no longer partitioned by it. In a table of format version 1 it stays as a void field.

        Args:
            name: the field's name.

        Returns:
            This update.

        Raises:
            InvalidPartitionSpecError: the spec has no such field.
        """
        return self._apply(RemovePartitionField(name=name))

    def rename_field(self, name: str, new_name: str) -> Self:
        """Rename a partition field, which keeps its id.

        Args:
            name: the field's name.
            new_name: the new name of the field.

        Returns:
            This update.

        Raises:
            InvalidPartitionSpecError: the spec has no such field, or the new name is taken.
        """
        return self._apply(RenamePartitionField(name=name, new_name=new_name))

    def spec(self) -> PartitionSpec:
        """Return the spec that results from the changes so far. The commit assigns its id, and the ids of new fields."""
        return self._evolving.build()

    def commit(self) -> None:
        """Commit the changes. If other writers committed meanwhile, the changes are applied to the newer table, as long as its spec is unchanged.

        Raises:
            CommitConflictError: another writer changed the partition spec. Nothing was changed: refresh the table and check again.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        """
        self._commit(MetadataChange(lambda base: spec_updates(base, self._changes), spec_requirements(self._base)))

    def _apply(self, change: SpecChange) -> Self:
        self._changes.append(self._evolving.apply(change))  # the field's name is fixed now, even if the column is renamed meanwhile
        return self


class UpdateSortOrder(PendingChange):
    """A new sort order that replaces the table's, built key by key, and committed at the end of a `with` block or by `commit()`.

    An order without keys leaves new data unsorted.
    """

    def __init__(self, base: TableMetadata, commit: Commit, *, case_sensitive: bool = True) -> None:
        self._base = base
        self._commit = commit
        self._case_sensitive = case_sensitive
        self._fields: list[SortField] = []

    def asc(self, source_column_name: str, transform: str | Transform = "identity", null_order: NullOrder | None = None) -> Self:
        """Add a key, smallest values first.

        Args:
            source_column_name: the column's dotted name.
            transform: a transform whose result is the key.
            null_order: whether nulls come first or last; by default first.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the column does not exist.
            InvalidInputError: the transform does not fit the column.
        """
        return self._add(source_column_name, transform, SortDirection.ASC, null_order)

    def desc(self, source_column_name: str, transform: str | Transform = "identity", null_order: NullOrder | None = None) -> Self:
        """Add a key, largest values first.

        Args:
            source_column_name: the column's dotted name.
            transform: a transform whose result is the key.
            null_order: whether nulls come first or last; by default last.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the column does not exist.
            InvalidInputError: the transform does not fit the column.
        """
        return self._add(source_column_name, transform, SortDirection.DESC, null_order)

    def commit(self) -> None:
        """Commit the keys as the table's sort order. If the table had an equal order before, that order is used again, with its id.

        Raises:
            CommitConflictError: another writer changed the sort order. Nothing was changed: refresh the table and check again.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        """
        self._commit(MetadataChange(lambda base: sort_order_updates(base, self._fields), sort_order_requirements(self._base)))

    def _add(self, column: str, transform: str | Transform, direction: SortDirection, null_order: NullOrder | None) -> Self:
        source_id = self._base.schema().find_field(column, case_sensitive=self._case_sensitive).field_id
        key = SortField(source_id, to_transform(transform), direction, null_order)
        check_sort_order(SortOrder(*self._fields, key), self._base.schema())
        self._fields.append(key)
        return self
