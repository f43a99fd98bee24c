"""Commits of the Java implementation, made again from their parts: the summaries and row ids are the same."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from icefloe.commit.snapshot_attempt import build_summary, path_of_partition
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_reader import read_columns, read_entries
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.manifest_list.manifest_list_reader import has_row_ids
from icefloe.spec.manifest_list.manifest_list_writer import assign_first_row_ids
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
# Keys that are not compared: how many manifests were made and reused, and the engine.
NOT_COUNTED = re.compile(r"manifests-.*|entries-processed|spark\..*|engine-.*|app-.*|iceberg-version")


def read(path: str) -> bytes:
    return Path(path.removeprefix("file:")).read_bytes()


def tables(warehouse: Path) -> Iterator[tuple[str, TableMetadata]]:
    for folder in sorted((warehouse / "db").iterdir()):
        newest = max((folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
        yield folder.name, read_table_metadata(newest.read_bytes(), str(newest))


def entries(table: TableMetadata, manifest: ManifestFile) -> list[ManifestEntry]:
    kind = spec_partition_type(table, manifest.partition_spec_id)
    content = read(manifest.manifest_path)
    found = read_entries(content, manifest, kind)
    columns = read_columns(content, manifest, kind).entries
    assert columns["first_row_id"].to_pylist() == [entry.data_file.first_row_id for entry in found]
    assert columns["sequence_number"].to_pylist() == [entry.sequence_number for entry in found]
    return found


def changed(table: TableMetadata, snapshot: Snapshot, status: ManifestEntryStatus) -> list[ManifestEntry]:
    own = [manifest for manifest in read_manifests(snapshot, read) if manifest.added_snapshot_id == snapshot.snapshot_id]
    return [entry for manifest in own for entry in entries(table, manifest) if entry.status == status]


def test_summaries_are_java_s(java_tables: Path) -> None:
    compared: set[str] = set()
    for name, table in tables(java_tables):
        for snapshot in table.snapshots:
            parent = None if snapshot.parent_snapshot_id is None else table.snapshot_by_id(snapshot.parent_snapshot_id)
            added, deleted = (
                [entry.data_file for entry in changed(table, snapshot, status)]
                for status in (ManifestEntryStatus.ADDED, ManifestEntryStatus.DELETED)
            )
            ours = build_summary(
                snapshot.operation or "",
                added=added,
                deleted=deleted,
                previous=parent.summary if parent else None,
                partition_path=path_of_partition(table),
            )
            theirs = {key: text for key, text in snapshot.summary.items() if not NOT_COUNTED.fullmatch(key)}
            assert ours == theirs, f"{name}, snapshot {snapshot.snapshot_id}"
            compared |= ours.keys()
    assert {
        "added-dvs",
        "added-position-delete-files",
        "added-equality-delete-files",
        "removed-delete-files",
        "deleted-records",
    } <= compared


def test_row_ids_are_assigned_as_in_java(java_tables: Path) -> None:
    counted = 0
    for _, table in tables(java_tables):
        if table.format_version < 3:
            continue
        for snapshot in table.snapshots:
            listed = read_manifests(snapshot, read)
            assert snapshot.manifest_list is not None
            assert has_row_ids(read(snapshot.manifest_list), snapshot.manifest_list)
            unassigned = [
                replace(manifest, first_row_id=None) if manifest.added_snapshot_id == snapshot.snapshot_id else manifest
                for manifest in listed
            ]
            assert snapshot.first_row_id is not None
            assert snapshot.added_rows is not None
            found, next_row_id = assign_first_row_ids(unassigned, snapshot.first_row_id)
            assert found == listed
            assert next_row_id - snapshot.first_row_id == snapshot.added_rows
            files = [e.data_file for m in listed if m.content == ManifestContent.DATA for e in entries(table, m) if e.is_live]
            spans = sorted((file.first_row_id or 0, file.record_count) for file in files)
            assert all(start + count <= after for (start, count), (after, _) in pairwise(spans))
            counted += len(files)
    assert counted > 5
