"""Changes of a table as a whole: its identity, format version, location, properties and encryption keys.

Other changes are in `update_layout.py` and `snapshot_updates.py`; all of one commit are joined in `update.py`.

Spec: REST catalog, TableUpdate (names and meaning); Table Metadata Fields; Encryption Keys; Appendix E; Version 1: Analytic Data Tables; Format Versioning;
Appendix E, Version 3; Row Lineage for Upgraded Tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from icefloe.errors import InvalidInputError
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.encrypted_key import EncryptedKey
from icefloe.kernel.metadata.new_table import check_version
from icefloe.kernel.metadata.table_metadata import ROW_LINEAGE_VERSION, TableMetadata

FIRST_VERSION_OF_KEYS = 3  # Spec: Appendix E, Version 3, Encryption changes


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


@dataclass(frozen=True, slots=True)
class AddEncryptionKey:
    """Adds a key; one that is there already, the same in everything, is no change."""

    key: EncryptedKey

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where another key has its id, or in a table before v3."""
        if metadata.format_version < FIRST_VERSION_OF_KEYS:
            raise InvalidInputError(
                f"a table of format version {metadata.format_version} has no encryption keys", next_step="upgrade it to format version 3"
            )
        known = metadata.encryption_key(self.key.key_id)
        if known == self.key:
            return metadata
        if known is not None:
            raise InvalidInputError(
                f"the table has another encryption key {self.key.key_id}", next_step="give the new key an id of its own"
            )
        return metadata.changed(now_ms, encryption_keys=metadata.encryption_keys.appended(self.key))


@dataclass(frozen=True, slots=True)
class RemoveEncryptionKey:
    """Removes a key; one that is not there is no error."""

    key_id: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where a snapshot or another key needs it to be decrypted. Decodes every snapshot."""
        if metadata.encryption_key(self.key_id) is None:
            return metadata
        needing = [f"snapshot {snapshot.snapshot_id}" for snapshot in metadata.snapshots if snapshot.key_id == self.key_id]
        needing += [f"key {key.key_id}" for key in metadata.encryption_keys if key.encrypted_by_id == self.key_id != key.key_id]
        if needing:
            raise InvalidInputError(
                f"encryption key {self.key_id} cannot be removed: {', '.join(needing)} could not be decrypted without it",
                next_step="remove what needs it first",
            )
        return metadata.changed(now_ms, encryption_keys=metadata.encryption_keys.where(lambda key: key.key_id != self.key_id))
