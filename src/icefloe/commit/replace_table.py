"""`ReplaceTable`: the action of REPLACE TABLE: a new schema, spec, sort order, location and properties without rows; the UUID and the history are kept.

A column keeps its id if its name is the same and its type is the same or wider; otherwise it is a new column. JAVA: TableMetadata.buildReplacement, which keeps
the id for every name, whatever the type. Spec: Table Metadata; Schema Evolution; Partition Evolution.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from icefloe.commit.attempt import Attempt, Read
from icefloe.commit.change_properties import set_property_updates
from icefloe.commit.evolve_layout import sort_order_requirements, spec_requirements
from icefloe.commit.evolve_schema import schema_requirements
from icefloe.errors import InvalidPartitionSpecError
from icefloe.spec.metadata.layout_updates import (
    LAST_ADDED,
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
)
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.requirement import AssertRefSnapshotId, Requirement, check_requirements
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.snapshot_updates import RemoveSnapshotRef
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import without_derived
from icefloe.spec.metadata.table_updates import SetLocation
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec, check_spec, rebind_spec
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder, rebind_sort_order
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_change import ReplaceWith
from icefloe.spec.schema.schema_evolution import evolve_schema


class ReplaceTable:
    """The commit action of REPLACE TABLE: it replaces the definition of a table, and removes the rows.

    Rows that another writer adds before the commit are replaced like all others. A concurrent change of the schema, spec or sort order is a conflict, because
    the new rows were written with column ids that would change.
    """

    def __init__(
        self,
        base: TableMetadata,
        *,
        schema: Schema,
        spec: PartitionSpec,
        sort_order: SortOrder,
        location: str | None,
        properties: Mapping[str, str],
        new_uuid: str,
    ) -> None:
        """Create the action.

        Args:
            base: the table that is replaced.
            schema: the new columns; `spec` and `sort_order` refer to their ids, which are then replaced by the table's ids or new ones.
            spec: the partition spec, over the ids of `schema`.
            sort_order: the sort order, over the ids of `schema`.
            location: the new location; None keeps it.
            properties: properties to set; others are kept.
            new_uuid: the UUID for a version 1 table that has none and is upgraded.
        """
        self._schema = schema
        self._spec = spec
        self._sort_order = sort_order
        self._location = location
        self._properties = without_derived(properties)
        self._new_uuid = new_uuid
        self._requirements: tuple[Requirement, ...] = (
            *schema_requirements(base),
            *spec_requirements(base)[1:],
            *sort_order_requirements(base)[1:],
        )

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:  # noqa: ARG002
        """Return the attempt on a base, see `Action.attempt`.

        Raises:
            CommitConflictError: another writer changed the schema, the spec or the sort order.
            InvalidSchemaError, InvalidPartitionSpecError, InvalidPropertyError: the definition is not valid for this table.
        """
        check_requirements(self._requirements, base)
        main = base.refs.get(MAIN)
        main_unchanged = AssertRefSnapshotId(MAIN, None if main is None else main.snapshot_id)
        return Attempt(updates=tuple(self._updates(base)), requirements=(*self._requirements, main_unchanged))

    def _updates(self, base: TableMetadata) -> list[Update]:
        upgrade = set_property_updates(base, self._properties, self._new_uuid)
        schema = self._new_schema(base)
        spec = rebind_spec(self._spec, self._schema, schema)
        check_spec(spec, schema, is_new=True)
        order = rebind_sort_order(self._sort_order, self._schema, schema)
        updates: list[Update] = [*upgrade, RemoveSnapshotRef(MAIN)]
        if not base.spec().is_unpartitioned() and not spec.is_equivalent(base.spec()):
            if base.format_version == 1:
                raise InvalidPartitionSpecError(
                    "a table of format version 1 keeps its partition fields, so it cannot be replaced by a table with another partition spec",
                    next_step="upgrade it to format version 2 first, or drop it",
                )
            # The default spec must be valid for the current schema after each update, but the columns of the old and the new spec are in different schemas.
            updates += [AddPartitionSpec(UNPARTITIONED_SPEC), SetDefaultSpec(LAST_ADDED)]
        if not base.sort_order().is_unsorted:
            updates += [AddSortOrder(UNSORTED_SORT_ORDER), SetDefaultSortOrder(LAST_ADDED)]
        updates += [AddSchema(schema), SetCurrentSchema(LAST_ADDED)]
        updates += [AddPartitionSpec(spec), SetDefaultSpec(LAST_ADDED), AddSortOrder(order), SetDefaultSortOrder(LAST_ADDED)]
        if self._location is not None:
            updates.append(SetLocation(self._location))
        return updates

    def _new_schema(self, base: TableMetadata) -> Schema:
        existing_names = {field.name for field in base.schema().fields}
        # The initial default of an existing column applies to older rows and does not change; new rows always contain the column.
        replacement = Schema(
            *(replace(field, initial_default=None) if field.name in existing_names else field for field in self._schema.fields),
            identifier_field_ids=self._schema.identifier_field_ids,
        )
        version = _version(base, self._properties)
        changes = [ReplaceWith(schema=replacement)]
        return evolve_schema(base.schema(), changes, base.last_column_id, allow_incompatible=True, format_version=version)[0]


def _version(base: TableMetadata, properties: Mapping[str, str]) -> int:
    return max(base.format_version, int(properties.get("format-version", base.format_version)))
