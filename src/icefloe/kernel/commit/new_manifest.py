"""Turns data files into the manifests of one commit: added files, and copies of old manifests from which files were removed.

How a manifest looks in bytes is `kernel/manifest/write.py`. Floor: kernel.commit. Spec: Manifests; Sequence Number Inheritance.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set

from icefloe.kernel.commit.attempt import CommitContext, NewFile, Read
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.kernel.manifest.read import read_entries
from icefloe.kernel.manifest.write import write_manifest
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.metadata import properties
from icefloe.kernel.metadata.manifests import spec_partition_type, spec_schema
from icefloe.kernel.metadata.naming import manifest_name
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import check_known_transforms, fields_to_json
from icefloe.kernel.schema.schema_json import schema_to_json

NewManifest = tuple[NewFile, ManifestFile]


class ManifestNumbers:
    """Counts the manifests of one commit, over all its attempts, so that no two get the same name."""

    def __init__(self, context: CommitContext) -> None:
        self._context = context
        self._next = 0

    def next_location(self) -> str:
        name = manifest_name(self._context.commit_uuid, self._next)
        self._next += 1
        return f"{self._context.metadata_location}/{name}"


def added_manifests(base: TableMetadata, files: Sequence[DataFile], context: CommitContext, numbers: ManifestNumbers) -> list[NewManifest]:
    """One manifest of ADDED entries for each partition spec among the files; sequence numbers are left to be inherited.

    Raises:
        UnsupportedFeatureError: a file's spec has a transform that is not known.
    """
    by_spec: dict[int, list[DataFile]] = defaultdict(list)
    for file in files:
        by_spec[file.spec_id].append(file)
    made = []
    for spec_id, group in sorted(by_spec.items()):
        entries = [
            ManifestEntry(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=context.snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            for file in group
        ]
        made.append(_write(base, entries, spec_id, context, numbers))
    return made


def without_files(
    base: TableMetadata,
    manifest: ManifestFile,
    removed: Set[str],
    context: CommitContext,
    numbers: ManifestNumbers,
    read: Read,
) -> tuple[NewManifest, list[DataFile]] | None:
    """The manifest again with the `removed` paths marked DELETED, and the files that were; None where it holds none of them.

    Entries that stay are EXISTING with explicit numbers; DELETED entries of older snapshots are dropped. Spec: Manifests.
    """
    kind = spec_partition_type(base, manifest.partition_spec_id)
    entries = read_entries(read(manifest.manifest_path), manifest, kind)
    live = [entry for entry in entries if entry.status is not ManifestEntryStatus.DELETED]
    gone = [entry for entry in live if entry.data_file.file_path in removed]
    if not gone:
        return None
    rewritten = [_restated(entry, entry.data_file.file_path in removed, context.snapshot_id) for entry in live]
    return _write(base, rewritten, manifest.partition_spec_id, context, numbers), [entry.data_file for entry in gone]


def _restated(entry: ManifestEntry, is_removed: bool, snapshot_id: int) -> ManifestEntry:
    status = ManifestEntryStatus.DELETED if is_removed else ManifestEntryStatus.EXISTING
    return ManifestEntry(
        status=status,
        snapshot_id=snapshot_id if is_removed else entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _write(
    base: TableMetadata, entries: Iterable[ManifestEntry], spec_id: int, context: CommitContext, numbers: ManifestNumbers
) -> NewManifest:
    spec = base.spec_by_id(spec_id)
    # Entries that stay are refused too: the type of what the transform gave is not known here, so they could not be written as they were.
    check_known_transforms(spec)
    location = numbers.next_location()
    schema = spec_schema(base, spec_id)
    content, manifest = write_manifest(
        entries,
        schema=schema,
        schema_json=json.dumps(schema_to_json(schema)),
        spec_fields_json=json.dumps(fields_to_json(spec)),
        spec_id=spec_id,
        partition_type=spec_partition_type(base, spec_id),
        snapshot_id=context.snapshot_id,
        format_version=base.format_version,
        codec=properties.AVRO_CODEC.read(base.properties),
        path=location,
    )
    return NewFile(location=location, content=content), manifest
