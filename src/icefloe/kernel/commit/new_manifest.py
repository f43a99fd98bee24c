"""Turns data and delete files into the manifests of one commit: added files, and copies of old manifests from which files were removed.

How a manifest looks in bytes is `kernel/manifest/write.py`. Floor: kernel.commit. Spec: Manifests; Sequence Number Inheritance; First Row
ID Inheritance.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from icefloe.kernel.commit.attempt import CommitContext, NewFile, Read
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.kernel.manifest.read import read_entries
from icefloe.kernel.manifest.write import write_manifest
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
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


def added_manifests(
    base: TableMetadata,
    files: Sequence[DataFile],
    context: CommitContext,
    numbers: ManifestNumbers,
    *,
    sequence_number: int | None = None,
) -> list[NewManifest]:
    """One manifest of ADDED entries for each partition spec among the data files, then one for each among the delete files.

    Sequence numbers are left to be inherited, but for data files whose rows are as old as `sequence_number`.

    Raises:
        InvalidInputError: the table's format version does not allow a file; the error names file and rule.
        UnsupportedFeatureError: a file's spec has a transform that is not known.
    """
    groups: dict[tuple[ManifestContent, int], list[DataFile]] = defaultdict(list)
    for file in files:
        content = ManifestContent.DATA if file.content == FileContent.DATA else ManifestContent.DELETES
        groups[content, file.spec_id].append(file)
    made = []
    for (content, spec_id), group in sorted(groups.items()):
        entries = [
            ManifestEntry(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=context.snapshot_id,
                sequence_number=sequence_number if content == ManifestContent.DATA else None,
                file_sequence_number=None,
                data_file=file,
            )
            for file in group
        ]
        made.append(_write(base, entries, content, spec_id, context, numbers))
    return made


def without_files(
    base: TableMetadata,
    manifest: ManifestFile,
    is_removed: Callable[[DataFile], bool],
    context: CommitContext,
    numbers: ManifestNumbers,
    read: Read,
) -> tuple[NewManifest, list[ManifestEntry]]:
    """The manifest again with some of its files marked DELETED, and those entries as they were.

    Entries that stay are EXISTING with explicit numbers and row ids; DELETED entries of older snapshots are dropped. Spec: Manifests.
    """
    kind = spec_partition_type(base, manifest.partition_spec_id)
    entries = read_entries(read(manifest.manifest_path), manifest, kind)
    live = [entry for entry in entries if entry.is_live]
    gone = [is_removed(entry.data_file) for entry in live]
    rewritten = [_restated(entry, is_gone, context.snapshot_id) for entry, is_gone in zip(live, gone, strict=True)]
    made = _write(base, rewritten, manifest.content, manifest.partition_spec_id, context, numbers)
    return made, [entry for entry, is_gone in zip(live, gone, strict=True) if is_gone]


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
    base: TableMetadata,
    entries: Iterable[ManifestEntry],
    content: ManifestContent,
    spec_id: int,
    context: CommitContext,
    numbers: ManifestNumbers,
) -> NewManifest:
    spec = base.spec_by_id(spec_id)
    # Entries that stay are refused too: the type of what the transform gave is not known here, so they could not be written as they were.
    check_known_transforms(spec)
    location = numbers.next_location()
    schema = spec_schema(base, spec_id)
    data, manifest = write_manifest(
        entries,
        schema=schema,
        schema_json=json.dumps(schema_to_json(schema)),
        spec_fields_json=json.dumps(fields_to_json(spec)),
        spec_id=spec_id,
        partition_type=spec_partition_type(base, spec_id),
        snapshot_id=context.snapshot_id,
        format_version=base.format_version,
        codec=properties.AVRO_CODEC.read(base.properties),
        content=content,
        path=location,
    )
    return NewFile(location=location, content=data), manifest
