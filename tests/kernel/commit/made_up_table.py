"""A table whose files are bytes in a dictionary, to commit actions to without storage; data files are made up, their bytes never exist."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from icefloe.kernel.commit.attempt import Action, Attempt, CommitContext
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.kernel.manifest.entry import ManifestEntry
from icefloe.kernel.manifest.manifest_reader import read_entries
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.metadata.manifests import read_manifests, spec_partition_type
from icefloe.kernel.metadata.metadata_updates import apply_updates
from icefloe.kernel.metadata.new_table import new_table_metadata
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.table_updates import SetProperties, UpgradeFormatVersion
from icefloe.kernel.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.kernel.partitioning.transforms import IdentityTransform
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import LongType, NestedField, StringType

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
FLAT, BY_NAME = 0, 1


class MadeUpTable:
    """The table has two specs: 0 without partitions, and 1 by `name`. Every commit takes the next snapshot id."""

    def __init__(self, format_version: int = 2, properties: Mapping[str, str] | None = None) -> None:
        self.files: dict[str, bytes] = {}
        made = new_table_metadata(
            location="t", schema=SCHEMA, format_version=format_version, table_uuid="6a1c", now_ms=0, properties=properties or {}
        )
        by_name = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"), spec_id=BY_NAME)
        self.metadata: TableMetadata = replace(made, partition_specs=[*made.partition_specs, by_name], last_partition_id=1000)
        self._snapshot_ids = itertools.count(101)
        self.now_ms = 0

    def context(self, **others: Any) -> CommitContext:
        snapshot_id = next(self._snapshot_ids)
        return CommitContext(commit_uuid=f"c{snapshot_id}", snapshot_id=snapshot_id, metadata_location="t/metadata", **others)

    def numbered(self, **others: Any) -> dict[str, Any]:
        """A context and its manifest numbers, as actions take them."""
        context = self.context(**others)
        return {"context": context, "numbers": ManifestNumbers(context)}

    def read(self, path: str) -> bytes:
        return self.files[path]

    def attempt(self, action: Action, number: int = 0) -> Attempt:
        """An attempt whose files are written and which is not committed: a race to lose."""
        made = action.attempt(self.metadata, number=number, now_ms=self.now_ms, read=self.read)
        assert made is not None
        for file in (*made.manifest_files, *made.manifest_lists):
            self.files[file.location] = file.content
        return made

    def commit(self, action: Action, number: int = 0) -> Snapshot:
        self.now_ms += 1
        made = self.attempt(action, number)
        for requirement in made.requirements:
            requirement.check(self.metadata)
        self.metadata = apply_updates(self.metadata, made.updates, self.now_ms)
        snapshot = self.metadata.snapshot_by_id(made.snapshot_id or 0)
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
            kind = spec_partition_type(self.metadata, manifest.partition_spec_id)
            yield manifest, read_entries(self.read(manifest.manifest_path), manifest, kind)

    def live(self) -> dict[str, ManifestEntry]:
        """The live entries by path; deletion vectors by path and offset."""
        found: dict[str, ManifestEntry] = {}
        for _, entries in self.entries():
            for entry in entries:
                if entry.is_live:
                    name = name_of(entry.data_file)
                    assert name not in found, f"{name} is live twice"
                    found[name] = entry
        return found


def name_of(file: DataFile) -> str:
    return file.file_path if file.content_offset is None else f"{file.file_path}@{file.content_offset}"


def rows(path: str, records: int = 10, name: str | None = None, **changes: Any) -> DataFile:
    """A data file, in the partition of `name` or unpartitioned."""
    made = DataFile(
        file_path=path,
        file_format=FileFormat.PARQUET,
        record_count=records,
        file_size_in_bytes=100 * records,
        partition=() if name is None else (name,),
        spec_id=FLAT if name is None else BY_NAME,
    )
    return replace(made, **changes)


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
