"""A table in memory, for tests of commit actions without storage: metadata files are bytes in a dictionary, data files have no content."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from icefloe.commit.attempt import Action, Attempt, CommitContext
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntry
from icefloe.spec.manifest.manifest_reader import read_entries
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import SetProperties, UpgradeFormatVersion
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField, StringType

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
FLAT, BY_NAME = 0, 1


class MadeUpTable:
    """A table with two partition specs: 0 is unpartitioned, 1 partitions by `name`. Snapshot ids are 101, 102, and so on."""

    def __init__(self, format_version: int = 2, properties: Mapping[str, str] | None = None) -> None:
        self.files: dict[str, bytes] = {}
        metadata = new_table_metadata(
            location="t", schema=SCHEMA, format_version=format_version, table_uuid="6a1c", now_ms=0, properties=properties or {}
        )
        by_name = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"), spec_id=BY_NAME)
        self.metadata: TableMetadata = replace(metadata, partition_specs=[*metadata.partition_specs, by_name], last_partition_id=1000)
        self._snapshot_ids = itertools.count(101)
        self.now_ms = 0

    def context(self, **others: Any) -> CommitContext:
        snapshot_id = next(self._snapshot_ids)
        return CommitContext(commit_uuid=f"c{snapshot_id}", snapshot_id=snapshot_id, metadata_location="t/metadata", **others)

    def numbered(self, **others: Any) -> dict[str, Any]:
        """Return a context and its manifest numbers, as keyword arguments of an action."""
        context = self.context(**others)
        return {"context": context, "numbers": ManifestNumbers(context)}

    def read(self, path: str) -> bytes:
        return self.files[path]

    def attempt(self, action: Action, number: int = 0) -> Attempt:
        """Return an attempt whose files are written, but which is not committed, as if another writer had committed first."""
        attempt = action.attempt(self.metadata, number=number, now_ms=self.now_ms, read=self.read)
        assert attempt is not None
        for file in (*attempt.manifest_files, *attempt.manifest_lists):
            self.files[file.location] = file.content
        return attempt

    def commit(self, action: Action, number: int = 0) -> Snapshot:
        self.now_ms += 1
        attempt = self.attempt(action, number)
        for requirement in attempt.requirements:
            requirement.check(self.metadata)
        self.metadata = apply_updates(self.metadata, attempt.updates, self.now_ms)
        snapshot = self.metadata.snapshot_by_id(attempt.snapshot_id or 0)
        assert snapshot is not None
        return snapshot

    def upgrade(self, format_version: int) -> None:
        self.metadata = apply_updates(self.metadata, [UpgradeFormatVersion(format_version)], self.now_ms)

    def set_property(self, name: str, value: str) -> None:
        self.metadata = apply_updates(self.metadata, [SetProperties({name: value})], self.now_ms)

    def manifests(self) -> list[ManifestFile]:
        snapshot = self.metadata.current_snapshot()
        return read_manifests(snapshot, self.read) if snapshot else []

    def entries(self) -> Iterator[tuple[ManifestFile, list[ManifestEntry]]]:
        for manifest in self.manifests():
            partition_type = spec_partition_type(self.metadata, manifest.partition_spec_id)
            yield manifest, read_entries(self.read(manifest.manifest_path), manifest, partition_type)

    def live(self) -> dict[str, ManifestEntry]:
        """Return the live entries by path; deletion vectors by path and offset."""
        live_entries: dict[str, ManifestEntry] = {}
        for _, entries in self.entries():
            for entry in entries:
                if entry.is_live:
                    name = name_of(entry.data_file)
                    assert name not in live_entries, f"{name} is live twice"
                    live_entries[name] = entry
        return live_entries


def name_of(file: DataFile) -> str:
    return file.file_path if file.content_offset is None else f"{file.file_path}@{file.content_offset}"


def rows(path: str, records: int = 10, name: str | None = None, **changes: Any) -> DataFile:
    """Return a data file in the partition of `name`, or unpartitioned."""
    file = DataFile(
        file_path=path,
        file_format=FileFormat.PARQUET,
        record_count=records,
        file_size_in_bytes=100 * records,
        partition=() if name is None else (name,),
        spec_id=FLAT if name is None else BY_NAME,
    )
    return replace(file, **changes)


def vector(path: str, target: DataFile, records: int = 1, offset: int = 4) -> DataFile:
    return replace(
        rows(path, records),
        content=FileContent.POSITION_DELETES,
        file_format=FileFormat.PUFFIN,
        file_size_in_bytes=1_000,
        referenced_data_file=target.file_path,
        content_offset=offset,
        content_size_in_bytes=40 + records,
        partition=target.partition,
        spec_id=target.spec_id,
    )


def position_deletes(path: str, partition_of: DataFile, records: int = 1, target: str | None = None) -> DataFile:
    return replace(
        rows(path, records),
        content=FileContent.POSITION_DELETES,
        referenced_data_file=target,
        partition=partition_of.partition,
        spec_id=partition_of.spec_id,
    )


def equality_deletes(path: str, partition_of: DataFile | None = None, records: int = 1) -> DataFile:
    partition, spec_id = (partition_of.partition, partition_of.spec_id) if partition_of else ((), FLAT)
    return replace(rows(path, records), content=FileContent.EQUALITY_DELETES, equality_ids=(1,), partition=partition, spec_id=spec_id)
