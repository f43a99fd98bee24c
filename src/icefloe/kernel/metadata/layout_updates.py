"""Changes of what a table's rows look like and where they lie: its schemas, partition specs and sort orders, and which of each is the current one.

Other changes are in `snapshot_updates.py` and `table_updates.py`; all of one commit are joined in `update.py`.
Spec: REST catalog, TableUpdate (names and meaning); Table Metadata Fields.
"""

from dataclasses import dataclass

from icefloe.errors import InvalidInputError
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import PartitionSpec, check_spec
from icefloe.kernel.partitioning.sort_order import FIRST_ORDER_ID, SortOrder, check_sort_order
from icefloe.kernel.partitioning.spec_evolution import numbered_spec
from icefloe.kernel.schema.schema import Schema, check_unambiguous
from icefloe.kernel.schema.version_rules import check_schema_version

# In the updates that choose a current schema, spec or order: the one last added by the same commit. Spec: REST catalog.
LAST_ADDED = -1


@dataclass(frozen=True, slots=True)
class AddSchema:
    """Adds a schema under the next free id. One equal to a known schema is not added again (`schema_id_of` says which it is).

    `last_column_id` is the highest column id given so far, where ids were given that no schema has; None: it follows from the schema.
    """

    schema: Schema
    last_column_id: int | None = None

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError`: the last column id is below one in use, or the table's format version does not know a column."""
        check_schema_version(self.schema, metadata.format_version)
        check_unambiguous(self.schema, metadata.schema().ambiguous_names)
        last_column_id = max(metadata.last_column_id, self.schema.highest_field_id)
        if self.last_column_id is not None:
            if self.last_column_id < last_column_id:
                raise InvalidInputError(f"the last column id cannot be {self.last_column_id}: {last_column_id} is given already")
            last_column_id = self.last_column_id
        if schema_id_of(metadata, self.schema) is not None:
            return metadata.changed(now_ms, last_column_id=last_column_id)
        schema_id = max(metadata.schemas.ids(), default=-1) + 1
        added = Schema(*self.schema.fields, schema_id=schema_id, identifier_field_ids=self.schema.identifier_field_ids)
        return metadata.changed(now_ms, schemas=metadata.schemas.appended(added), last_column_id=last_column_id)


@dataclass(frozen=True, slots=True)
class SetCurrentSchema:
    """Makes a known schema the current one."""

    schema_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where there is none, or the default spec or sort order names a column that it lacks."""
        schema = metadata.schemas.get(self.schema_id)
        if schema is None:
            raise _unknown("schema", self.schema_id)
        check_spec(metadata.spec(), schema, may_be_unknown=True)
        check_sort_order(metadata.sort_order(), schema, may_be_unknown=True)
        return metadata.changed(now_ms, current_schema_id=self.schema_id)


@dataclass(frozen=True, slots=True)
class AddPartitionSpec:
    """Adds a spec under the next free id, its fields under the ids known for them or fresh ones. An equivalent known spec is kept instead."""

    spec: PartitionSpec

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidPartitionSpecError` where it does not fit the current schema, or v1 could not read it."""
        if spec_id_of(metadata, self.spec) is not None:
            return metadata.changed(now_ms)
        check_spec(self.spec, metadata.schema())
        numbered = numbered_spec(self.spec, metadata.partition_specs, metadata.last_partition_id, format_version=metadata.format_version)
        added = PartitionSpec(*numbered.fields, spec_id=max(metadata.partition_specs.ids(), default=-1) + 1)
        last = max(metadata.last_partition_id, added.last_assigned_field_id)
        return metadata.changed(now_ms, partition_specs=metadata.partition_specs.appended(added), last_partition_id=last)


@dataclass(frozen=True, slots=True)
class SetDefaultSpec:
    """Makes a known spec the one that new data is written with."""

    spec_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where there is none or it does not fit the current schema."""
        spec = metadata.partition_specs.get(self.spec_id)
        if spec is None:
            raise _unknown("partition spec", self.spec_id)
        check_spec(spec, metadata.schema())
        return metadata.changed(now_ms, default_spec_id=self.spec_id)


@dataclass(frozen=True, slots=True)
class AddSortOrder:
    """Adds a sort order under the next free id; an equal known one is kept instead."""

    sort_order: SortOrder

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where it does not fit the current schema."""
        if sort_order_id_of(metadata, self.sort_order) is not None:
            return metadata.changed(now_ms)
        # 0 is the order without fields, and only that one. Spec: Sorting.
        order_id = max((*metadata.sort_orders.ids(), FIRST_ORDER_ID - 1)) + 1 if self.sort_order.fields else FIRST_ORDER_ID - 1
        added = SortOrder(*self.sort_order.fields, order_id=order_id)
        check_sort_order(added, metadata.schema())
        return metadata.changed(now_ms, sort_orders=metadata.sort_orders.appended(added))


@dataclass(frozen=True, slots=True)
class SetDefaultSortOrder:
    """Makes a known sort order the default."""

    sort_order_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where there is none or it does not fit the current schema."""
        order = metadata.sort_orders.get(self.sort_order_id)
        if order is None:
            raise _unknown("sort order", self.sort_order_id)
        check_sort_order(order, metadata.schema())
        return metadata.changed(now_ms, default_sort_order_id=self.sort_order_id)


@dataclass(frozen=True, slots=True)
class RemovePartitionSpecs:
    """Removes specs that no manifest of the table is written with: whoever asks for it has looked. Ids that are not there are no error."""

    spec_ids: tuple[int, ...]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where the default spec is one of them."""
        if metadata.default_spec_id in self.spec_ids:
            raise InvalidInputError(
                f"partition spec {metadata.default_spec_id} is the default one and cannot be removed", next_step="make another the default"
            )
        kept = metadata.partition_specs.without(self.spec_ids)
        return metadata if kept is metadata.partition_specs else metadata.changed(now_ms, partition_specs=kept)


@dataclass(frozen=True, slots=True)
class RemoveSchemas:
    """Removes schemas that no snapshot is read with. Ids that are not there are no error."""

    schema_ids: tuple[int, ...]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where the current schema or that of a snapshot is one of them. Decodes every snapshot."""
        gone = frozenset(self.schema_ids)
        if metadata.current_schema_id in gone:
            raise InvalidInputError(
                f"schema {metadata.current_schema_id} is the current one and cannot be removed", next_step="make another schema current"
            )
        kept = metadata.schemas.without(gone)
        if kept is metadata.schemas:
            return metadata
        for snapshot in metadata.snapshots:
            if snapshot.schema_id in gone:
                raise InvalidInputError(
                    f"schema {snapshot.schema_id} cannot be removed: snapshot {snapshot.snapshot_id} is read with it",
                    snapshot_id=snapshot.snapshot_id,
                    next_step="expire that snapshot first",
                )
        return metadata.changed(now_ms, schemas=kept)


def schema_id_of(metadata: TableMetadata, schema: Schema) -> int | None:
    """The id of the table's schema with the same columns and identifier fields, or None."""
    same = (known for known in metadata.schemas if known.fields == schema.fields)
    return next((known.schema_id for known in same if set(known.identifier_field_ids) == set(schema.identifier_field_ids)), None)


def spec_id_of(metadata: TableMetadata, spec: PartitionSpec) -> int | None:
    """The id of the table's spec that partitions the same way, or None."""
    return next((known.spec_id for known in metadata.partition_specs if known.is_equivalent(spec)), None)


def sort_order_id_of(metadata: TableMetadata, order: SortOrder) -> int | None:
    """The id of the table's sort order with the same fields, or None."""
    return next((known.order_id for known in metadata.sort_orders if known.fields == order.fields), None)


def _unknown(what: str, wanted: int) -> InvalidInputError:
    if wanted == LAST_ADDED:
        return InvalidInputError(f"{LAST_ADDED} is the {what} last added by the same commit, and this one added none")
    return InvalidInputError(f"the table has no {what} {wanted}")
