"""The new manifests of one commit: manifests of added files, and copies of existing manifests without removed files.

Their bytes are written by `kernel/manifest/added_manifest_writer.py` and `kernel/manifest/manifest_merge.py`.
Spec: Manifests; Sequence Number Inheritance; First Row ID Inheritance.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

import numpy as np

from icefloe.kernel.arrow_values import mask_array, numpy_of
from icefloe.kernel.commit.attempt import CommitContext, NewFile, Read
from icefloe.kernel.manifest.added_manifest_writer import write_added_manifests
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.kernel.manifest.manifest_column_writer import ManifestTarget
from icefloe.kernel.manifest.manifest_merge import filter_manifest
from icefloe.kernel.manifest.manifest_reader import read_columns
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.manifests import spec_partition_type, spec_schema
from icefloe.kernel.metadata.naming import manifest_name
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import check_known_transforms, fields_to_json
from icefloe.kernel.scan.file_objects import file_objects, partition_tuples
from icefloe.kernel.schema.schema_json import schema_to_json

# The file to write, and its line in the manifest list.
NewManifest = tuple[NewFile, ManifestFile]

_ENTRY_FIELDS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")


class ManifestNumbers:
    """A counter of the manifests of one commit, over all its attempts, so that every manifest has its own name."""

    def __init__(self, context: CommitContext) -> None:
        self._context = context
        self._next = 0

    def next_location(self) -> str:
        """Return the location for the next manifest."""
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
    """Write manifests with ADDED entries, one for each content and partition spec of the files.

    A content and spec gets several manifests only if one would be larger than `commit.manifest.target-size-bytes`. Manifests of data files come first.

    Args:
        base: the table.
        files: data and delete files to add.
        context: the ids and the location of the commit.
        numbers: the counter for names of manifests.
        sequence_number: the data sequence number of the data files; None (and always for delete files) inherits that of the commit.

    Raises:
        InvalidInputError: the table's format version does not allow a file; the error names file and rule.
        UnsupportedFeatureError: a file's spec has a transform that is not known.
    """
    manifests: list[NewManifest] = []
    for (content, spec_id), group in sorted(_grouped(files).items()):
        written = write_added_manifests(
            group,
            partial(manifest_target, base, content, spec_id, context, numbers),
            sequence_number=sequence_number if content == ManifestContent.DATA else None,
            target_bytes=table_properties.MANIFEST_TARGET_SIZE_BYTES.read(base.properties),
            parallel=context.parallel,
        )
        manifests += [(NewFile(location=line.manifest_path, content=data), line) for data, line in written]
    return manifests


def _grouped(files: Sequence[DataFile]) -> dict[tuple[ManifestContent, int], Sequence[DataFile]]:
    """Group files by content and spec, which a manifest does not mix. The common case of a single group needs no loop over the files."""
    if set(map(attrgetter("content"), files)) == {FileContent.DATA} and len(specs := set(map(attrgetter("spec_id"), files))) == 1:
        return {(ManifestContent.DATA, specs.pop()): files}
    groups: dict[tuple[ManifestContent, int], list[DataFile]] = defaultdict(list)
    for file in files:
        content = ManifestContent.DATA if file.content == FileContent.DATA else ManifestContent.DELETES
        groups[content, file.spec_id].append(file)
    return dict(groups)


def without_files(
    base: TableMetadata,
    manifest: ManifestFile,
    is_removed: Callable[[DataFile], bool],
    context: CommitContext,
    numbers: ManifestNumbers,
    read: Read,
) -> tuple[NewManifest, list[ManifestEntry]]:
    """Rewrite a manifest with some of its files removed. JAVA: ManifestFilterManager.filterManifest.

    Removed files get status DELETED. Other live entries get status EXISTING with explicit sequence numbers and row ids; DELETED entries of older snapshots are
    dropped. Unchanged bytes are copied, not decoded.

    Args:
        base: the table.
        manifest: the manifest to rewrite.
        is_removed: whether a file is removed; called for every entry.
        context: the ids and the location of the commit.
        numbers: the counter for names of manifests.
        read: returns the bytes of a manifest.

    Returns:
        The new manifest, and the removed entries as they were; their files have no column statistics.

    Spec: Manifests.
    """
    target = manifest_target(base, manifest.content, manifest.partition_spec_id, context, numbers)
    content = read(manifest.manifest_path)
    entries = read_columns(content, manifest, target.partition_type).entries
    live = numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED)
    partitions = partition_tuples(entries, target.partition_type)
    files = file_objects(entries, manifest.partition_spec_id, partitions)
    removed = live & np.fromiter(map(is_removed, files), bool, len(files))
    data, line = filter_manifest(manifest, content, removed, target)
    removed_entries = [
        ManifestEntry(ManifestEntryStatus(status), snapshot_id, number, file_number, files[row])
        for row, status, snapshot_id, number, file_number in zip(
            np.flatnonzero(removed).tolist(),
            *(entries[name].filter(mask_array(removed)).to_pylist() for name in _ENTRY_FIELDS),
            strict=True,
        )
    ]
    return (NewFile(location=target.path, content=data), line), removed_entries


def manifest_target(
    base: TableMetadata, content: ManifestContent, spec_id: int, context: CommitContext, numbers: ManifestNumbers
) -> ManifestTarget:
    """Return the location, schema and format of a new manifest.

    Raises:
        UnsupportedFeatureError: the spec has an unknown transform.
    """
    spec = base.spec_by_id(spec_id)
    # This holds for existing entries too: the result type of an unknown transform is unknown, so their partition values cannot be written again.
    check_known_transforms(spec)
    location = numbers.next_location()
    schema = spec_schema(base, spec_id)
    return ManifestTarget(
        path=location,
        schema=schema,
        schema_json=json.dumps(schema_to_json(schema)),
        spec_fields_json=json.dumps(fields_to_json(spec)),
        spec_id=spec_id,
        partition_type=spec_partition_type(base, spec_id),
        snapshot_id=context.snapshot_id,
        format_version=base.format_version,
        content=content,
        codec=table_properties.AVRO_CODEC.read(base.properties),
    )
