"""The new manifests of one commit: manifests of added files, copies of existing manifests without removed files, and merged manifests.

`ManifestMergeManager` keeps them over all attempts of the commit. It chooses the manifests to merge as Java's ManifestMergeManager does, so that both
implementations leave a table in the same form. `spec/manifest/added_manifest_writer.py` and `spec/manifest/manifest_merge.py` produce the bytes.
Spec: Manifests; Manifest Lists; Sequence Number Inheritance; First Row ID Inheritance.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import numpy as np

from icefloe.commit.attempt import CommitContext, NewFile, Read
from icefloe.scan.file_objects import file_objects, partition_tuples
from icefloe.spec.arrow_values import mask_array, numpy_of
from icefloe.spec.manifest.added_manifest_writer import write_added_manifests
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_column_writer import ManifestTarget
from icefloe.spec.manifest.manifest_merge import filter_manifest, merge_manifests
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.manifest_list.manifest_list_reader import ManifestSummary
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.naming import manifest_name
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type, spec_schema
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import check_known_transforms, fields_to_json
from icefloe.spec.partitioning.transforms import UnknownTransform
from icefloe.spec.schema.schema_json import schema_to_json

# A manifest to write, and its line in the manifest list.
NewManifest = tuple[NewFile, ManifestFile]

_ENTRY_FIELDS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")


class ManifestNumbers:
    """A counter that gives each manifest of a commit, over all its attempts, a name of its own."""

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
    delete_sequence_number: int | None = None,
) -> list[NewManifest]:
    """Write manifests with ADDED entries, one for each content and partition spec of the files.

    A content and spec gets several manifests only if one would be larger than `commit.manifest.target-size-bytes`. Manifests of data files come first.

    Args:
        base: the table.
        files: data and delete files to add.
        context: the ids and the location of the commit.
        numbers: the counter for names of manifests.
        sequence_number: the data sequence number of the data files; None inherits that of the commit.
        delete_sequence_number: the data sequence number of the delete files; None inherits that of the commit.

    Raises:
        InvalidInputError: the table's format version does not allow a file; the error names file and rule.
        UnsupportedFeatureError: a file's spec has an unknown transform.
    """
    manifests: list[NewManifest] = []
    for (content, spec_id), group in sorted(_group_files(files).items()):
        written = write_added_manifests(
            group,
            partial(manifest_target, base, content, spec_id, context, numbers),
            sequence_number=sequence_number if content == ManifestContent.DATA else delete_sequence_number,
            target_bytes=table_properties.MANIFEST_TARGET_SIZE_BYTES.read(base.properties),
            parallel=context.parallel,
        )
        manifests += [(NewFile(location=line.manifest_path, content=data), line) for data, line in written]
    return manifests


def _group_files(files: Sequence[DataFile]) -> dict[tuple[ManifestContent, int], Sequence[DataFile]]:
    """Group files by content and spec, because a manifest has one of each. The common case of a single group needs no Python loop over the files."""
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
        is_removed: returns whether a file is removed; called for every entry.
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
    # Existing entries cannot be written either: the result type of an unknown transform is unknown, and so is the type of their partition values.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """The `commit.manifest-merge.*` and `commit.manifest.*` properties of a table."""

    is_enabled: bool
    target_bytes: int
    min_count: int
    unmergeable_specs: frozenset[int] = frozenset()  # specs with an unknown transform, whose partition values cannot be written again

    def bins(self, summaries: Sequence[ManifestSummary]) -> list[tuple[list[int], bool]]:
        """Pack the manifests of a snapshot into bins, each of which becomes one manifest.

        The manifests of each content and spec are packed in order, beginning with the oldest, into bins of at most the target size, so that only the bin with
        the newest manifests is not full. The bin with the newest manifest of its content, over all specs, is merged only if it has at least `min_count`
        manifests.

        Args:
            summaries: the manifests of a snapshot, newest first.

        Returns:
            Each bin as indices of `summaries`, and whether its manifests are to be merged. Bins of data manifests come before bins of delete manifests, newer
            specs before older ones.
        """
        groups: dict[tuple[int, int], list[int]] = {}
        newest: dict[int, int] = {}
        for index, summary in enumerate(summaries):
            groups.setdefault((summary.content, -summary.spec_id), []).append(index)
            newest.setdefault(summary.content, index)
        bins = []
        for (content, spec), indices in sorted(groups.items()):
            for packed in self._pack_end(summaries, indices):
                is_too_small = packed[0] == newest[content] and len(packed) < self.min_count
                bins.append((packed, self.is_enabled and len(packed) > 1 and not is_too_small and -spec not in self.unmergeable_specs))
        return bins

    def _pack_end(self, summaries: Sequence[ManifestSummary], indices: Sequence[int]) -> list[list[int]]:
        bins: list[list[int]] = []
        size = 0
        for index in reversed(indices):
            size += summaries[index].length
            if not bins or size > self.target_bytes:
                bins.append([])
                size = summaries[index].length
            bins[-1].append(index)
        return [packed[::-1] for packed in reversed(bins)]


def merge_rules(base: TableMetadata) -> MergeRules:
    """Return the merge rules of a table. Raises `InvalidPropertyError`."""
    unmergeable = (spec for spec in base.partition_specs if any(isinstance(part.transform, UnknownTransform) for part in spec.fields))
    return MergeRules(
        is_enabled=table_properties.MANIFEST_MERGE_ENABLED.read(base.properties),
        target_bytes=table_properties.MANIFEST_TARGET_SIZE_BYTES.read(base.properties),
        min_count=table_properties.MANIFEST_MIN_COUNT_TO_MERGE.read(base.properties),
        unmergeable_specs=frozenset(spec.spec_id for spec in unmergeable),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedManifests:
    """The manifests of a snapshot after merging, in order; `replaced_count` is how many manifests of older snapshots were merged."""

    manifests: tuple[ManifestFile, ...]
    replaced_count: int


class ManifestMergeManager:
    """The merging of manifests for one commit, over all its attempts.

    A merged manifest is created once, and reused by later attempts if all manifests that it was merged from are still in the table. The bytes of the commit's
    new manifests are kept in memory until an attempt lists them, so that a new manifest which is merged at once is never written. If `merges` is false, the
    parent's manifests do not change (fast append).
    """

    def __init__(self, context: CommitContext, numbers: ManifestNumbers, *, merges: bool = True) -> None:
        self.merges = merges
        self._context = context
        self._numbers = numbers
        self._new_manifest_files: dict[str, NewFile] = {}
        self._merged: dict[tuple[int, tuple[ManifestFile, ...]], ManifestFile] = {}

    def add(self, new_manifests: Iterable[NewManifest]) -> None:
        """Add manifests that the commit created."""
        self._new_manifest_files.update((file.location, file) for file, _ in new_manifests)

    def manifests_of_commit(self, manifests: Iterable[ManifestFile]) -> tuple[ManifestFile, ...]:
        """Return, out of `manifests`, the manifests that this commit created."""
        return tuple(manifest for manifest in manifests if manifest.added_snapshot_id == self._context.snapshot_id)

    def new_files(self, manifests: Iterable[ManifestFile]) -> tuple[NewFile, ...]:
        """Return the files to write for the manifests among `manifests` that this commit created."""
        new_files = self._new_manifest_files
        return tuple(new_files[manifest.manifest_path] for manifest in manifests if manifest.manifest_path in new_files)

    def merge(self, base: TableMetadata, manifests: Sequence[ManifestFile], read: Read) -> MergedManifests:
        """Merge small manifests as the table's properties require, except encrypted ones, and drop older manifests without live files.

        If `merges` is false, nothing changes.

        Args:
            base: the table, with the properties.
            manifests: the manifests of the snapshot, newest first.
            read: returns the bytes of a manifest.

        Raises:
            AvroFormatError, ManifestFormatError: a manifest to merge is damaged.
        """
        if not self.merges:
            return MergedManifests(manifests=tuple(manifests), replaced_count=0)
        new_paths = {manifest.manifest_path for manifest in self.manifests_of_commit(manifests)}
        live_manifests = [manifest for manifest in manifests if manifest.has_live_files or manifest.manifest_path in new_paths]
        merged: list[ManifestFile] = []
        replaced_count = 0
        for indices, is_merged in merge_rules(base).bins([_summary_of(manifest) for manifest in live_manifests]):
            packed = tuple(live_manifests[index] for index in indices)
            if is_merged and all(manifest.key_metadata is None for manifest in packed):
                merged.append(self._merge_bin(base, packed, read))
                replaced_count += sum(manifest.manifest_path not in new_paths for manifest in packed)
            else:
                merged += packed
        return MergedManifests(manifests=tuple(merged), replaced_count=replaced_count)

    def keeps_all(self, base: TableMetadata, new: Sequence[ManifestFile], parent_summaries: Sequence[ManifestSummary]) -> bool:
        """Return True if `merge` of the new manifests and those of the parent would change nothing."""
        if not self.merges:
            return True
        summaries = [*map(_summary_of, new), *parent_summaries]
        return all(summary.has_live_files for summary in parent_summaries) and not any(
            is_merged for _, is_merged in merge_rules(base).bins(summaries)
        )

    def _merge_bin(self, base: TableMetadata, packed: tuple[ManifestFile, ...], read: Read) -> ManifestFile:
        key = (base.format_version, packed)
        if key not in self._merged:
            target = manifest_target(base, packed[0].content, packed[0].partition_spec_id, self._context, self._numbers)
            new_files = self._new_manifest_files
            contents = self._context.parallel(
                lambda path: new_files[path].content if path in new_files else read(path), [manifest.manifest_path for manifest in packed]
            )
            data, merged = merge_manifests(zip(packed, contents, strict=True), target)
            new_files[target.path] = NewFile(location=target.path, content=data)
            self._merged[key] = merged
        return self._merged[key]


def manifest_counts(
    manifests: Iterable[ManifestFile], context: CommitContext, *, kept_count: int, replaced_count: int
) -> Mapping[str, str]:
    """Return the `manifests-*` counts of a snapshot summary.

    The snapshot lists these manifests, and `kept_count` unchanged ones of the parent. Spec: Appendix F, Metrics.
    """
    created_count = 0
    for manifest in manifests:
        is_new = manifest.added_snapshot_id == context.snapshot_id
        created_count, kept_count = created_count + is_new, kept_count + (not is_new)
    return {"manifests-created": str(created_count), "manifests-kept": str(kept_count), "manifests-replaced": str(replaced_count)}


def _summary_of(manifest: ManifestFile) -> ManifestSummary:
    return ManifestSummary(
        int(manifest.content),
        manifest.partition_spec_id,
        manifest.manifest_length,
        manifest.has_live_files,
        manifest.first_row_id is not None,
    )
