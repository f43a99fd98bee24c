"""`ReplaceTable`: a table gets another schema, spec, sort order, location and properties, and loses its rows; its identity and its history stay.

Columns of the same name keep their ids where the type is the same or wider; others are new columns. JAVA: TableMetadata.buildReplacement, which keeps the id of
every name, whatever its type. Spec: Table Metadata; Schema Evolution; Partition Evolution.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from icefloe.errors import InvalidPartitionSpecError
from icefloe.kernel.commit.attempt import Attempt, Read
from icefloe.kernel.commit.change_properties import set_property_updates
from icefloe.kernel.commit.evolve_layout import sort_order_requirements, spec_requirements
from icefloe.kernel.commit.evolve_schema import schema_requirements
from icefloe.kernel.metadata.layout_updates import (
    LAST_ADDED,
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
)
from icefloe.kernel.metadata.metadata_updates import Update
from icefloe.kernel.metadata.requirement import AssertRefSnapshotId, Requirement, check_requirements
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.kernel.metadata.snapshot_updates import RemoveSnapshotRef
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.table_properties import without_derived
from icefloe.kernel.metadata.table_updates import SetLocation
from icefloe.kernel.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec, check_spec, rebind_spec
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder, rebind_sort_order
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_change import ReplaceWith
from icefloe.kernel.schema.schema_evolution import evolve_schema


class ReplaceTable:
    """The action. What is given is as for a new table: `spec` and `sort_order` are over the ids of `schema`, which mean nothing here.

    Rows that others add meanwhile are replaced with all others. A schema, spec or sort order that changed meanwhile is a conflict: the ids of columns that the
    new rows were written with would be others.
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
        """See `Action.attempt`. Raises `CommitConflictError`, and what a wrong definition does."""
        check_requirements(self._requirements, base)
        main = base.refs.get(MAIN)
        seen = AssertRefSnapshotId(MAIN, None if main is None else main.snapshot_id)
        return Attempt(updates=tuple(self._updates(base)), requirements=(*self._requirements, seen))

    def _updates(self, base: TableMetadata) -> list[Update]:
        upgrade = set_property_updates(base, self._properties, self._new_uuid)
        schema = self._new_schema(base)
        spec = rebind_spec(self._spec, self._schema, schema)
        check_spec(spec, schema, is_new=True)
        order = rebind_sort_order(self._sort_order, self._schema, schema)
        updates: list[Update] = [*upgrade, RemoveSnapshotRef(MAIN)]
        if not base.spec().is_unpartitioned and not spec.is_equivalent(base.spec()):
            if base.format_version == 1:
                raise InvalidPartitionSpecError(
                    "a table of format version 1 keeps its partition fields for ever, so that it cannot be replaced by one partitioned otherwise",
                    next_step="upgrade it to format version 2 first, or drop it",
                )
            # Between the old spec and the new one, whose columns are in different schemas.
            updates += [AddPartitionSpec(UNPARTITIONED_SPEC), SetDefaultSpec(LAST_ADDED)]
        if not base.sort_order().is_unsorted:
            updates += [AddSortOrder(UNSORTED_SORT_ORDER), SetDefaultSortOrder(LAST_ADDED)]
        updates += [AddSchema(schema), SetCurrentSchema(LAST_ADDED)]
        updates += [AddPartitionSpec(spec), SetDefaultSpec(LAST_ADDED), AddSortOrder(order), SetDefaultSortOrder(LAST_ADDED)]
        if self._location is not None:
            updates.append(SetLocation(self._location))
        return updates

    def _new_schema(self, base: TableMetadata) -> Schema:
        known = {field.name for field in base.schema().fields}
        # What older rows have in a column stays as it is, and of the new rows none is without it.
        wanted = Schema(
            *(replace(field, initial_default=None) if field.name in known else field for field in self._schema.fields),
            identifier_field_ids=self._schema.identifier_field_ids,
        )
        version = _version(base, self._properties)
        changes = [ReplaceWith(schema=wanted)]
        return evolve_schema(base.schema(), changes, base.last_column_id, allow_incompatible=True, format_version=version)[0]


def _version(base: TableMetadata, properties: Mapping[str, str]) -> int:
    return max(base.format_version, int(properties.get("format-version", base.format_version)))
