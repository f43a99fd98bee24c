"""Changes of a table as a whole: its identity, format version, location and properties.

Other changes are in `update_layout.py` and `update_snapshots.py`; all of one commit are joined in `update.py`.
Floor: kernel.metadata. Spec: REST catalog, TableUpdate (names and meaning); Table Metadata Fields; Appendix E.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from icefloe.errors import InvalidInputError
from icefloe.kernel.metadata import properties as table_properties
from icefloe.kernel.metadata.new_table import check_version
from icefloe.kernel.metadata.table_metadata import ROW_LINEAGE_VERSION, TableMetadata


@dataclass(frozen=True, slots=True)
class AssignUUID:
    """Gives a table its identity."""

    uuid: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where the table has another uuid."""
        if metadata.table_uuid not in (None, self.uuid):
            raise InvalidInputError(f"the table's uuid is {metadata.table_uuid} and cannot become {self.uuid}")
        return metadata.changed(now_ms, table_uuid=self.uuid)


@dataclass(frozen=True, slots=True)
class UpgradeFormatVersion:
    """Raises the format version; the same version is no change."""

    format_version: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` for a lower version, `UnsupportedFormatVersionError` for one that cannot be written."""
        check_version(self.format_version)
        if self.format_version < metadata.format_version:
            raise InvalidInputError(f"a table of format version {metadata.format_version} cannot go back to version {self.format_version}")
        changed = metadata.changed(now_ms, format_version=self.format_version)
        if metadata.format_version < ROW_LINEAGE_VERSION <= self.format_version:
            # No row has an id yet, whatever a key of that name may have meant to an earlier writer. Spec: Row Lineage for Upgraded Tables.
            unknown = {key: raw for key, raw in metadata.unknown.items() if key != "next-row-id"}
            return replace(changed, next_row_id=0, unknown=unknown)
        return changed


@dataclass(frozen=True, slots=True)
class SetLocation:
    """Moves where new files of the table go."""

    location: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        return metadata.changed(now_ms, location=self.location.rstrip("/"))


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Sets table properties; others stay."""

    updates: Mapping[str, str]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidPropertyError` where a property that Icefloe acts on is not what it may be."""
        table_properties.check_properties(self.updates)
        return metadata.changed(now_ms, properties={**metadata.properties, **self.updates})


@dataclass(frozen=True, slots=True)
class RemoveProperties:
    """Removes table properties; names that are not there are no error."""

    removals: tuple[str, ...]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        return metadata.changed(now_ms, properties={name: text for name, text in metadata.properties.items() if name not in self.removals})
