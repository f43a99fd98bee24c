"""Updates of a table's layout: its schemas, partition specs and sort orders, and which of them are the current or default ones.

Other updates are in `snapshot_updates.py`, `statistics_updates.py` and `table_updates.py`; `metadata_updates.py` applies all updates of a commit.
Spec: REST catalog, TableUpdate (names and meaning); Table Metadata Fields.
"""

from dataclasses import dataclass

from icefloe.errors import InvalidInputError
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import PartitionSpec, check_spec
from icefloe.spec.partitioning.sort_order import FIRST_ORDER_ID, SortOrder, check_sort_order
from icefloe.spec.partitioning.spec_evolution import assign_spec_field_ids
from icefloe.spec.schema.schema import Schema, check_unambiguous
from icefloe.spec.schema.version_rules import check_schema_version

# The id that refers to the schema, spec or sort order that the same commit added last. Spec: REST catalog.
LAST_ADDED = -1


@dataclass(frozen=True, slots=True)
class AddSchema:
    """An update that adds a schema under the next free id, unless the table has an equal one (`schema_id_of` returns its id).

    Attributes:
        schema: The schema; its own id is ignored.
        last_column_id: Highest column id assigned so far, which may be the id of a column in no schema; None for the highest id of the schema.
    """

    schema: Schema
    last_column_id: int | None = None

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the schema.

        Raises:
            InvalidInputError: the last column id is lower than an id in use, or the format version does not support a column.
        """
        check_schema_version(self.schema, metadata.format_version)
        check_unambiguous(self.schema, metadata.schema().ambiguous_names)
        last_column_id = max(metadata.last_column_id, self.schema.highest_field_id)
        if self.last_column_id is not None:
            if self.last_column_id < last_column_id:
                raise InvalidInputError(f"the last column id cannot be {self.last_column_id}: {last_column_id} is given already")
            last_column_id = self.last_column_id
        if schema_id_of(metadata, self.schema) is not None:
            return metadata.with_changes(now_ms, last_column_id=last_column_id)
        schema_id = max(metadata.schemas.ids(), default=-1) + 1
        added = Schema(*self.schema.fields, schema_id=schema_id, identifier_field_ids=self.schema.identifier_field_ids)
        return metadata.with_changes(now_ms, schemas=metadata.schemas.with_entries(added), last_column_id=last_column_id)


@dataclass(frozen=True, slots=True)
class SetCurrentSchema:
    """An update that makes a schema of the table the current one."""

    schema_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with another current schema.

        Raises:
            InvalidInputError: there is no such schema, or it lacks a source column of the default spec or sort order.
        """
        schema = metadata.schemas.get(self.schema_id)
        if schema is None:
            raise _unknown_id("schema", self.schema_id)
        check_spec(metadata.spec(), schema, may_be_unknown=True)
        check_sort_order(metadata.sort_order(), schema, may_be_unknown=True)
        return metadata.with_changes(now_ms, current_schema_id=self.schema_id)


@dataclass(frozen=True, slots=True)
class AddPartitionSpec:
    """An update that adds a partition spec under the next free id, unless the table has an equivalent one.

    Its fields keep the ids that the table has assigned to equal fields.
    """

    spec: PartitionSpec

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the partition spec.

        Raises:
            InvalidPartitionSpecError: the spec does not fit the current schema, or cannot be represented in version 1.
        """
        if spec_id_of(metadata, self.spec) is not None:
            return metadata.with_changes(now_ms)
        check_spec(self.spec, metadata.schema())
        numbered = assign_spec_field_ids(
            self.spec, metadata.partition_specs, metadata.last_partition_id, format_version=metadata.format_version
        )
        added = PartitionSpec(*numbered.fields, spec_id=max(metadata.partition_specs.ids(), default=-1) + 1)
        last = max(metadata.last_partition_id, added.last_assigned_field_id)
        return metadata.with_changes(now_ms, partition_specs=metadata.partition_specs.with_entries(added), last_partition_id=last)


@dataclass(frozen=True, slots=True)
class SetDefaultSpec:
    """An update that makes a partition spec the default: new data is written with it."""

    spec_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with another default partition spec.

        Raises:
            InvalidInputError: there is no such spec, or it does not fit the current schema.
        """
        spec = metadata.partition_specs.get(self.spec_id)
        if spec is None:
            raise _unknown_id("partition spec", self.spec_id)
        check_spec(spec, metadata.schema())
        return metadata.with_changes(now_ms, default_spec_id=self.spec_id)


@dataclass(frozen=True, slots=True)
class AddSortOrder:
    """An update that adds a sort order under the next free id, unless the table has an equal one."""

    sort_order: SortOrder

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the sort order.

        Raises:
            InvalidInputError: the sort order does not fit the current schema.
        """
        if sort_order_id_of(metadata, self.sort_order) is not None:
            return metadata.with_changes(now_ms)
        # Order id 0 is reserved for the order without fields. Spec: Sorting.
        order_id = max((*metadata.sort_orders.ids(), FIRST_ORDER_ID - 1)) + 1 if self.sort_order.fields else FIRST_ORDER_ID - 1
        added = SortOrder(*self.sort_order.fields, order_id=order_id)
        check_sort_order(added, metadata.schema())
        return metadata.with_changes(now_ms, sort_orders=metadata.sort_orders.with_entries(added))


@dataclass(frozen=True, slots=True)
class SetDefaultSortOrder:
    """An update that makes a sort order of the table the default one."""

    sort_order_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with another default sort order.

        Raises:
            InvalidInputError: there is no such sort order, or it does not fit the current schema.
        """
        order = metadata.sort_orders.get(self.sort_order_id)
        if order is None:
            raise _unknown_id("sort order", self.sort_order_id)
        check_sort_order(order, metadata.schema())
        return metadata.with_changes(now_ms, default_sort_order_id=self.sort_order_id)


@dataclass(frozen=True, slots=True)
class RemovePartitionSpecs:
    """An update that removes partition specs. The caller must check before that no manifest of the table uses them. Unknown ids are ignored."""

    spec_ids: tuple[int, ...]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata without the partition specs.

        Raises:
            InvalidInputError: one of them is the default spec.
        """
        if metadata.default_spec_id in self.spec_ids:
            raise InvalidInputError(
                f"partition spec {metadata.default_spec_id} is the default one and cannot be removed", next_step="make another the default"
            )
        remaining_specs = metadata.partition_specs.without(self.spec_ids)
        return metadata if remaining_specs is metadata.partition_specs else metadata.with_changes(now_ms, partition_specs=remaining_specs)


@dataclass(frozen=True, slots=True)
class RemoveSchemas:
    """An update that removes schemas that no snapshot uses. Unknown ids are ignored."""

    schema_ids: tuple[int, ...]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata without the schemas. Decodes every snapshot.

        Raises:
            InvalidInputError: one of them is the current schema, or that of a snapshot.
        """
        removed_ids = frozenset(self.schema_ids)
        if metadata.current_schema_id in removed_ids:
            raise InvalidInputError(
                f"schema {metadata.current_schema_id} is the current one and cannot be removed", next_step="make another schema current"
            )
        remaining_schemas = metadata.schemas.without(removed_ids)
        if remaining_schemas is metadata.schemas:
            return metadata
        for snapshot in metadata.snapshots:
            if snapshot.schema_id in removed_ids:
                raise InvalidInputError(
                    f"schema {snapshot.schema_id} cannot be removed: snapshot {snapshot.snapshot_id} is read with it",
                    snapshot_id=snapshot.snapshot_id,
                    next_step="expire that snapshot first",
                )
        return metadata.with_changes(now_ms, schemas=remaining_schemas)


def schema_id_of(metadata: TableMetadata, schema: Schema) -> int | None:
    """Return the id of the table's schema with the same columns and identifier fields, or None."""
    same_columns = (existing for existing in metadata.schemas if existing.fields == schema.fields)
    identifiers = set(schema.identifier_field_ids)
    return next((existing.schema_id for existing in same_columns if set(existing.identifier_field_ids) == identifiers), None)


def spec_id_of(metadata: TableMetadata, spec: PartitionSpec) -> int | None:
    """Return the id of the table's spec that partitions the same way, or None."""
    return next((existing.spec_id for existing in metadata.partition_specs if existing.is_equivalent(spec)), None)


def sort_order_id_of(metadata: TableMetadata, order: SortOrder) -> int | None:
    """Return the id of the table's sort order with the same fields, or None."""
    return next((existing.order_id for existing in metadata.sort_orders if existing.fields == order.fields), None)


def _unknown_id(kind: str, entry_id: int) -> InvalidInputError:
    if entry_id == LAST_ADDED:
        return InvalidInputError(f"{LAST_ADDED} is the {kind} last added by the same commit, and this one added none")
    return InvalidInputError(f"the table has no {kind} {entry_id}")
