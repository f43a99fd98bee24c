"""Updates of a table as a whole: its identity, format version, location, properties and encryption keys.

Other updates are in `layout_updates.py`, `snapshot_updates.py` and `statistics_updates.py`; `metadata_updates.py` applies all updates of a commit.

Spec: REST catalog, TableUpdate (names and meaning); Table Metadata Fields; Encryption Keys; Appendix E; Version 1: Analytic Data Tables; Format Versioning;
Appendix E, Version 3; Row Lineage for Upgraded Tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from icefloe.errors import InvalidInputError
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.encrypted_key import EncryptedKey
from icefloe.spec.metadata.new_table import check_version
from icefloe.spec.metadata.table_metadata import ROW_LINEAGE_VERSION, TableMetadata

FIRST_VERSION_OF_KEYS = 3  # Spec: Appendix E, Version 3, Encryption changes


@dataclass(frozen=True, slots=True)
class AssignUUID:
    """An update that sets the uuid of a table that has none."""

    uuid: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the uuid.

        Raises:
            InvalidInputError: the table has another uuid.
        """
        if metadata.table_uuid not in (None, self.uuid):
            raise InvalidInputError(f"the table's uuid is {metadata.table_uuid} and cannot become {self.uuid}")
        return metadata.with_changes(now_ms, table_uuid=self.uuid)


@dataclass(frozen=True, slots=True)
class UpgradeFormatVersion:
    """An update that raises the format version. If the table has the version already, nothing changes."""

    format_version: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the format version.

        Raises:
            InvalidInputError: the version is lower than the table's.
            UnsupportedFormatVersionError: Icefloe cannot write the version.
        """
        check_version(self.format_version)
        if self.format_version < metadata.format_version:
            raise InvalidInputError(f"a table of format version {metadata.format_version} cannot go back to version {self.format_version}")
        changed = metadata.with_changes(now_ms, format_version=self.format_version)
        if metadata.format_version < ROW_LINEAGE_VERSION <= self.format_version:
            # No row has a row id yet, even if an earlier writer has written a key of this name. Spec: Row Lineage for Upgraded Tables.
            unknown = {key: raw for key, raw in metadata.unknown.items() if key != "next-row-id"}
            return replace(changed, next_row_id=0, unknown=unknown)
        return changed


@dataclass(frozen=True, slots=True)
class SetLocation:
    """An update that sets the location of new files of the table."""

    location: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the location, without a slash at its end."""
        return metadata.with_changes(now_ms, location=self.location.rstrip("/"))


@dataclass(frozen=True, slots=True)
class SetProperties:
    """An update that sets table properties and keeps the others."""

    updates: Mapping[str, str]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the properties.

        Raises:
            InvalidPropertyError: a property that has an effect in Icefloe has an invalid value.
        """
        table_properties.check_properties(self.updates)
        return metadata.with_changes(now_ms, properties={**metadata.properties, **self.updates})


@dataclass(frozen=True, slots=True)
class RemoveProperties:
    """An update that removes table properties; unknown names are ignored."""

    removals: tuple[str, ...]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata without the properties."""
        return metadata.with_changes(
            now_ms, properties={name: text for name, text in metadata.properties.items() if name not in self.removals}
        )


@dataclass(frozen=True, slots=True)
class AddEncryptionKey:
    """An update that adds an encryption key. If the table has the key already, nothing changes."""

    key: EncryptedKey

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata with the key.

        Raises:
            InvalidInputError: another key has its id, or the format version is below 3.
        """
        if metadata.format_version < FIRST_VERSION_OF_KEYS:
            raise InvalidInputError(
                f"a table of format version {metadata.format_version} has no encryption keys", next_step="upgrade it to format version 3"
            )
        existing = metadata.encryption_key(self.key.key_id)
        if existing == self.key:
            return metadata
        if existing is not None:
            raise InvalidInputError(
                f"the table has another encryption key {self.key.key_id}", next_step="give the new key an id of its own"
            )
        return metadata.with_changes(now_ms, encryption_keys=metadata.encryption_keys.with_entries(self.key))


@dataclass(frozen=True, slots=True)
class RemoveEncryptionKey:
    """An update that removes an encryption key; an unknown id is ignored."""

    key_id: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Return the metadata without the key. Decodes every snapshot.

        Raises:
            InvalidInputError: a snapshot or another key is encrypted with it.
        """
        if metadata.encryption_key(self.key_id) is None:
            return metadata
        dependents = [f"snapshot {snapshot.snapshot_id}" for snapshot in metadata.snapshots if snapshot.key_id == self.key_id]
        dependents += [f"key {key.key_id}" for key in metadata.encryption_keys if key.encrypted_by_id == self.key_id != key.key_id]
        if dependents:
            raise InvalidInputError(
                f"encryption key {self.key_id} cannot be removed: {', '.join(dependents)} could not be decrypted without it",
                next_step="remove what needs it first",
            )
        return metadata.with_changes(now_ms, encryption_keys=metadata.encryption_keys.where(lambda key: key.key_id != self.key_id))
