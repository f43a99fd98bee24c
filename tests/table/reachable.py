"""The files that the metadata of a table names, read with fastavro and Python sets: the reference for the files that may be deleted."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastavro

from icefloe.spec.metadata.table_metadata import TableMetadata

DELETED = 2


def records(path: str) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(Path(path.removeprefix("file:")).read_bytes())))


def files_of(metadata: TableMetadata, snapshot_ids: Iterable[int]) -> set[str]:
    """Return every file that a read of these snapshots needs, and their statistics files."""
    wanted, found = set(snapshot_ids), set()
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id in wanted:
            manifests = snapshot.manifest_paths or ()
            if snapshot.manifest_list is not None:
                found.add(snapshot.manifest_list)
                manifests = tuple(row["manifest_path"] for row in records(snapshot.manifest_list))
            for manifest in manifests:
                found.add(manifest)
                found |= {row["data_file"]["file_path"] for row in records(manifest) if row["status"] != DELETED}
    for file in (*metadata.statistics, *metadata.partition_statistics):
        if file.snapshot_id in wanted:
            found.add(file.statistics_path)
    return found


def everything(metadata: TableMetadata) -> set[str]:
    return files_of(metadata, metadata.snapshots.ids())


def on_disk(folder: str | Path) -> set[str]:
    """Return every file in a folder except metadata files, which are in the metadata log."""
    return {str(path) for path in Path(folder).rglob("*") if path.is_file() and ".metadata.json" not in path.name}


def taken_out(metadata: TableMetadata) -> set[str]:
    """Return every file that a deleted entry of the table's snapshots names."""
    manifests = {
        row["manifest_path"] for snapshot in metadata.snapshots if snapshot.manifest_list for row in records(snapshot.manifest_list)
    }
    return {row["data_file"]["file_path"] for path in manifests for row in records(path) if row["status"] == DELETED}
