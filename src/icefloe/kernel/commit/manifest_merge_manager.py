"""`ManifestMergeManager`: the manifests that one commit makes over all its attempts, and which small manifests it merges into larger ones.

What merging does to entries is `kernel/manifest/manifest_merge.py`. Which manifests are merged is decided as Java does, so that both engines leave a
table in the same
form. Spec: Manifests; Manifest Lists.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from icefloe.kernel.commit.attempt import CommitContext, NewFile, Read
from icefloe.kernel.commit.new_manifest import ManifestNumbers, NewManifest, manifest_target
from icefloe.kernel.manifest.manifest_merge import merge_manifests
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.manifest_list.manifest_list_reader import ManifestSummary
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.transforms import UnknownTransform


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """A table's `commit.manifest-merge.*` and `commit.manifest.*` properties."""

    is_enabled: bool
    target_bytes: int
    min_count: int
    unmergeable_specs: frozenset[int] = frozenset()  # whose partition values cannot be written again

    def bins(self, lines: Sequence[ManifestSummary]) -> list[tuple[list[int], bool]]:
        """The manifests of a snapshot, as indices in groups, and whether those of a group become one.

        Manifests of one content and spec are packed from the end, in order, into bins of at most the target size, so that the bin at the front is the one
        with room left. The bin with the very first manifest of its content, which is the newest, waits until it has `min_count`. Data manifests come before
        delete manifests, newer specs before older ones.
        """
        groups: dict[tuple[int, int], list[int]] = {}
        first: dict[int, int] = {}
        for index, line in enumerate(lines):
            groups.setdefault((line.content, -line.spec_id), []).append(index)
            first.setdefault(line.content, index)
        found = []
        for (content, spec), indices in sorted(groups.items()):
            for packed in self._packed(lines, indices):
                waits = packed[0] == first[content] and len(packed) < self.min_count
                found.append((packed, self.is_enabled and len(packed) > 1 and not waits and -spec not in self.unmergeable_specs))
        return found

    def _packed(self, lines: Sequence[ManifestSummary], indices: Sequence[int]) -> list[list[int]]:
        bins: list[list[int]] = []
        size = 0
        for index in reversed(indices):
            size += lines[index].length
            if not bins or size > self.target_bytes:
                bins.append([])
                size = lines[index].length
            bins[-1].append(index)
        return [packed[::-1] for packed in reversed(bins)]


def merge_rules(base: TableMetadata) -> MergeRules:
    """The rules of a table. Raises `InvalidPropertyError`."""
    unknown = (spec for spec in base.partition_specs if any(isinstance(part.transform, UnknownTransform) for part in spec.fields))
    return MergeRules(
        is_enabled=table_properties.MANIFEST_MERGE_ENABLED.read(base.properties),
        target_bytes=table_properties.MANIFEST_TARGET_SIZE_BYTES.read(base.properties),
        min_count=table_properties.MANIFEST_MIN_COUNT_TO_MERGE.read(base.properties),
        unmergeable_specs=frozenset(spec.spec_id for spec in unknown),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedManifests:
    """The manifests of a snapshot after merging, in order, and how many of older snapshots were merged away."""

    manifests: tuple[ManifestFile, ...]
    replaced: int


class ManifestMergeManager:
    """Where `merges` is false, every manifest of the parent is kept as it is: a fast append.

    A merged manifest is made once, and used by every attempt that finds all its parts in the table. The bytes of what this commit made are kept, so that its
    new manifest is never written where it is merged at once.
    """

    def __init__(self, context: CommitContext, numbers: ManifestNumbers, *, merges: bool = True) -> None:
        self.merges = merges
        self._context = context
        self._numbers = numbers
        self._made: dict[str, NewFile] = {}
        self._merged: dict[tuple[int, tuple[ManifestFile, ...]], ManifestFile] = {}

    def add(self, made: Iterable[NewManifest]) -> None:
        """Takes manifests that the commit made."""
        self._made.update((file.location, file) for file, _ in made)

    def own(self, manifests: Iterable[ManifestFile]) -> tuple[ManifestFile, ...]:
        """Those of the manifests that this commit made."""
        return tuple(manifest for manifest in manifests if manifest.added_snapshot_id == self._context.snapshot_id)

    def new_files(self, manifests: Iterable[ManifestFile]) -> tuple[NewFile, ...]:
        """Return the files of those manifests that this commit made."""
        return tuple(self._made[manifest.manifest_path] for manifest in manifests if manifest.manifest_path in self._made)

    def merged(self, base: TableMetadata, manifests: Sequence[ManifestFile], read: Read) -> MergedManifests:
        """The manifests of a snapshot, newest first, after those without live files are dropped and small ones merged by the table's properties.

        Raises:
            AvroFormatError, ManifestFormatError: a manifest to merge is damaged.
        """
        if not self.merges:
            return MergedManifests(manifests=tuple(manifests), replaced=0)
        own = {manifest.manifest_path for manifest in self.own(manifests)}
        kept = [manifest for manifest in manifests if manifest.has_live_files or manifest.manifest_path in own]
        found: list[ManifestFile] = []
        replaced = 0
        for indices, is_merged in merge_rules(base).bins([_line(manifest) for manifest in kept]):
            packed = tuple(kept[index] for index in indices)
            if is_merged and all(manifest.key_metadata is None for manifest in packed):
                found.append(self._one(base, packed, read))
                replaced += sum(manifest.manifest_path not in own for manifest in packed)
            else:
                found += packed
        return MergedManifests(manifests=tuple(found), replaced=replaced)

    def leaves(self, base: TableMetadata, new: Sequence[ManifestFile], lines: Sequence[ManifestSummary]) -> bool:
        """Whether `merged` would keep every manifest of a parent that these `lines` tell of, with the `new` ones before them."""
        if not self.merges:
            return True
        every = [*map(_line, new), *lines]
        return all(line.has_live_files for line in lines) and not any(is_merged for _, is_merged in merge_rules(base).bins(every))

    def _one(self, base: TableMetadata, packed: tuple[ManifestFile, ...], read: Read) -> ManifestFile:
        key = (base.format_version, packed)
        if key not in self._merged:
            target = manifest_target(base, packed[0].content, packed[0].partition_spec_id, self._context, self._numbers)
            made = self._made
            contents = self._context.parallel(
                lambda path: made[path].content if path in made else read(path), [manifest.manifest_path for manifest in packed]
            )
            data, line = merge_manifests(zip(packed, contents, strict=True), target)
            made[target.path] = NewFile(location=target.path, content=data)
            self._merged[key] = line
        return self._merged[key]


def manifest_counts(manifests: Iterable[ManifestFile], context: CommitContext, *, kept: int, replaced: int) -> Mapping[str, str]:
    """The summary's counts of a snapshot whose list is these manifests and `kept` more of its parent. Spec: Appendix F, Metrics."""
    created = others = 0
    for manifest in manifests:
        is_own = manifest.added_snapshot_id == context.snapshot_id
        created, others = created + is_own, others + (not is_own)
    return {"manifests-created": str(created), "manifests-kept": str(kept + others), "manifests-replaced": str(replaced)}


def _line(manifest: ManifestFile) -> ManifestSummary:
    return ManifestSummary(
        int(manifest.content),
        manifest.partition_spec_id,
        manifest.manifest_length,
        manifest.has_live_files,
        manifest.first_row_id is not None,
    )
