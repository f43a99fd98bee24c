"""The refusal of encrypted tables: encrypted files are not read, and no unencrypted files are written to such tables.

The keys themselves are in `encrypted_key.py`. Spec: Encryption Keys; Snapshots (`key-id`).
"""

from icefloe.errors import UnsupportedFeatureError
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_metadata import TableMetadata

_OTHER_ENGINE = "an engine that has its keys"


def refuse_encrypted(snapshot: Snapshot | None, table: str | None = None) -> None:
    """Raise an error if the snapshot's manifest list is encrypted.

    Args:
        snapshot: The snapshot to read; None is accepted.
        table: Name of the table, for the message.

    Raises:
        UnsupportedFeatureError: the manifest list is encrypted.
    """
    if snapshot is None or snapshot.key_id is None:
        return
    raise UnsupportedFeatureError(
        f"{table or 'the table'} is encrypted: its snapshot {snapshot.snapshot_id} can only be read with the key {snapshot.key_id!r}",
        table=table,
        snapshot_id=snapshot.snapshot_id,
        next_step=f"read the table with {_OTHER_ENGINE}, or copy it to a table without encryption",
    )


def refuse_plain_files(metadata: TableMetadata, table: str | None = None) -> None:
    """Raise an error if new files of the table must be encrypted, because unencrypted files would disclose the data.

    Args:
        metadata: The table to be written.
        table: Name of the table, for the message.

    Raises:
        UnsupportedFeatureError: the table has the property `encryption.key-id`.
    """
    key = table_properties.ENCRYPTION_KEY.read(metadata.properties)
    if key is not None:
        raise UnsupportedFeatureError(
            f"the files of {table or 'the table'} must be encrypted with the key {key!r} (property {table_properties.ENCRYPTION_KEY.name}); "
            "Icefloe writes no encrypted files",
            table=table,
            next_step=f"write with {_OTHER_ENGINE}; if its files need not be encrypted, remove the property",
        )
