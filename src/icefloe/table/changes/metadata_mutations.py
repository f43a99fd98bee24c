"""`MetadataMutations`: the changes of a table that move no row: schema, partition spec, sort order, properties, version, location, statistics.

Spec: Schema Evolution; Partition Evolution; Table Metadata Fields.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from icefloe.kernel.commit.change_properties import (
    location_updates,
    property_requirements,
    remove_property_updates,
    set_property_updates,
    version_updates,
)
from icefloe.kernel.commit.metadata_change import MetadataChange
from icefloe.kernel.metadata.metadata_updates import Update
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.table.changes.mutation_context import TableMutations
from icefloe.table.changes.update_partitioning import UpdateSortOrder, UpdateSpec
from icefloe.table.changes.update_schema import UpdateSchema
from icefloe.table.changes.update_statistics import UpdateStatistics
from icefloe.table.warnings_once import warn_of_properties


class MetadataMutations(TableMutations):
    """Those that give an `Update...` collect changes and make them together at the end of its `with` block."""

    def update_statistics(self) -> UpdateStatistics:
        """Which statistics files snapshots have: `with table.update_statistics() as update: update.set_statistics(statistics_file)`."""
        return UpdateStatistics(self._start().metadata, self._commit)

    def update_schema(self, allow_incompatible_changes: bool = False, case_sensitive: bool = True) -> UpdateSchema:
        """Changes of the columns, committed together: `with table.update_schema() as update: update.add_column("note", StringType())`."""
        return UpdateSchema(
            self._start().metadata,
            self._commit,
            allow_incompatible_changes=allow_incompatible_changes,
            case_sensitive=case_sensitive,
        )

    def update_spec(self, case_sensitive: bool = True) -> UpdateSpec:
        """Changes of the partition spec, committed together: `with table.update_spec() as update: update.add_field("ts", "day")`."""
        return UpdateSpec(self._start().metadata, self._commit, case_sensitive=case_sensitive)

    def update_sort_order(self, case_sensitive: bool = True) -> UpdateSortOrder:
        """A new sort order in place of the table's: `with table.update_sort_order() as update: update.asc("ts").desc("id")`."""
        return UpdateSortOrder(self._start().metadata, self._commit, case_sensitive=case_sensitive)

    def replace_sort_order(self, case_sensitive: bool = True) -> UpdateSortOrder:
        """The same as `update_sort_order`, under Java's name."""
        return self.update_sort_order(case_sensitive)

    def upgrade_table_version(self, format_version: int) -> None:
        """Raises the table's format version. From 3 on rows have ids: those that are there get theirs with the next snapshot.

        Raises:
            InvalidInputError: a lower version than the table's.
            UnsupportedFormatVersionError: a version that Icefloe does not write.
        """
        new_uuid = self._start().handle.ids.uuid()
        self._change(lambda base: version_updates(base, format_version, new_uuid))

    def set_properties(self, properties: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Sets table properties, others stay; `format-version` upgrades the table.

        Raises:
            InvalidPropertyError: a property that Icefloe acts on is not what it may be; each wrong one is listed.
        """
        given, new_uuid = {**(properties or {}), **more}, self._start().handle.ids.uuid()
        self._change(lambda base: set_property_updates(base, given, new_uuid))
        warn_of_properties(given, self._start().handle.table_name)

    def remove_properties(self, *names: str) -> None:
        """Removes table properties; names that are not there are no error."""
        self._change(lambda base: remove_property_updates(base, names))

    def set_location(self, location: str) -> None:
        """New files of the table go there from now on; those that are there stay where they are. Raises `InvalidInputError` for an empty one."""
        self._change(lambda base: location_updates(base, location))

    def _change(self, updates: Callable[[TableMetadata], Sequence[Update]]) -> None:
        self._commit(MetadataChange(updates, property_requirements(self._start().metadata)))
