"""Turns data and delete files into the manifests of one commit: added files, and copies of old manifests from which files were removed.

How a manifest looks in bytes is `kernel/manifest/manifest_writer.py` and `manifest_merge.py`. Spec: Manifests; Sequence Number Inheritance; First Row
ID Inheritance.
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

NewManifest = tuple[NewFile, ManifestFile]

_HEAD = ("status", "snapshot_id", "sequence_number", "file_sequence_number")


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
    """Manifests of ADDED entries for each partition spec among the data files, then for each among the delete files.

    Each is one, but where so many files are added that it would outgrow `commit.manifest.target-size-bytes`.
    Sequence numbers are left to be inherited, but for data files whose rows are as old as `sequence_number`.

    Raises:
        InvalidInputError: the table's format version does not allow a file; the error names file and rule.
        UnsupportedFeatureError: a file's spec has a transform that is not known.
    """
    made: list[NewManifest] = []
    for (content, spec_id), group in sorted(_grouped(files).items()):
        written = write_added_manifests(
            group,
            partial(manifest_target, base, content, spec_id, context, numbers),
            sequence_number=sequence_number if content == ManifestContent.DATA else None,
            target_bytes=table_properties.MANIFEST_TARGET_SIZE_BYTES.read(base.properties),
            parallel=context.parallel,
        )
        made += [(NewFile(location=line.manifest_path, content=data), line) for data, line in written]
    return made


def _grouped(files: Sequence[DataFile]) -> dict[tuple[ManifestContent, int], Sequence[DataFile]]:
    """The files by what manifests do not mix. Most often there is one group, which is found without a step for each file."""
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
    """The manifest again with some of its files marked DELETED, and those entries as they were.

    Entries that stay are EXISTING with explicit numbers and row ids; DELETED entries of older snapshots are dropped. Bytes that do not change are
    copied, and the files of the entries that are given back have no column statistics. Spec: Manifests.
    """
    target = manifest_target(base, manifest.content, manifest.partition_spec_id, context, numbers)
    content = read(manifest.manifest_path)
    entries = read_columns(content, manifest, target.partition_type).entries
    live = numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED)
    partitions = partition_tuples(entries, target.partition_type)
    files = file_objects(entries, manifest.partition_spec_id, partitions)
    removed = live & np.fromiter(map(is_removed, files), bool, len(files))
    data, line = filter_manifest(manifest, content, removed, target)
    gone = [
        ManifestEntry(ManifestEntryStatus(status), snapshot_id, number, file_number, files[row])
        for row, status, snapshot_id, number, file_number in zip(
            np.flatnonzero(removed).tolist(),
            *(entries[name].filter(mask_array(removed)).to_pylist() for name in _HEAD),
            strict=True,
        )
    ]
    return (NewFile(location=target.path, content=data), line), gone


def manifest_target(
    base: TableMetadata, content: ManifestContent, spec_id: int, context: CommitContext, numbers: ManifestNumbers
) -> ManifestTarget:
    """A new manifest's name and form. Raises `UnsupportedFeatureError` under a spec with a transform that is not known."""
    spec = base.spec_by_id(spec_id)
    # Entries that stay are refused too: the type of what the transform gave is not known here, so they could not be written as they were.
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
