"""What of a table is encrypted, and is refused: its files are neither read nor written, and nothing is written beside them in plain form.

Not here: the keys themselves (`encrypted_key.py`). Spec: Encryption Keys; Snapshots (`key-id`).
"""

from icefloe.errors import UnsupportedFeatureError
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata

_OTHER_ENGINE = "an engine that has its keys"


def refuse_encrypted(snapshot: Snapshot | None, table: str | None = None) -> None:
    """Raises `UnsupportedFeatureError` where the snapshot's manifest list is encrypted. `table` is its name, for the message."""
    if snapshot is None or snapshot.key_id is None:
        return
    raise UnsupportedFeatureError(
        f"{table or 'the table'} is encrypted: its snapshot {snapshot.snapshot_id} can only be read with the key {snapshot.key_id!r}",
        table=table,
        snapshot_id=snapshot.snapshot_id,
        next_step=f"read the table with {_OTHER_ENGINE}, or copy it to a table without encryption",
    )


def refuse_plain_files(metadata: TableMetadata, table: str | None = None) -> None:
    """Raises `UnsupportedFeatureError` where the table's new files are to be encrypted: what its owner wants unreadable is not written for all to read."""
    key = table_properties.ENCRYPTION_KEY.read(metadata.properties)
    if key is not None:
        raise UnsupportedFeatureError(
            f"the files of {table or 'the table'} are to be encrypted with the key {key!r}, as {table_properties.ENCRYPTION_KEY.name} says; "
            "encrypted files are not written",
            table=table,
            next_step=f"write with {_OTHER_ENGINE}; if its files need not be encrypted, remove the property",
        )
