"""`RewriteManifests`: the action that replaces manifests by others with the same files (operation `replace`): clustered, and of the table's target size.

`clustered_entries.py` assigns entries to manifests. `new_manifest.py` merges small manifests as part of other commits. JAVA: BaseRewriteManifests.
Spec: Manifests; Manifest Lists; Snapshots (operation replace); Commit Conflict Resolution and Retry.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from icefloe.commit.attempt import Attempt, CommitContext, NewFile, Read
from icefloe.commit.clustered_entries import Clustering, cluster_entries
from icefloe.commit.new_manifest import ManifestMergeManager, ManifestNumbers, NewManifest, manifest_target, merge_rules
from icefloe.commit.snapshot_attempt import parent_snapshot, snapshot_attempt
from icefloe.errors import CommitInvalidatedError, InvalidInputError, Problem
from icefloe.spec.avro.avro_container import has_small_blocks
from icefloe.spec.manifest.manifest_column_writer import write_manifest_columns
from icefloe.spec.manifest.manifest_reader import fill_counts, open_manifest, read_columns
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata

EVERY_CONTENT = frozenset(ManifestContent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedManifests:
    """The manifests that one attempt removes, adds and keeps, and the number of entries that it rewrote."""

    removed: tuple[ManifestFile, ...] = ()
    added: tuple[ManifestFile, ...] = ()
    kept: tuple[ManifestFile, ...] = ()
    entries: int = 0
    snapshot_id: int | None = None  # None if there was nothing to rewrite


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusteredManifests:
    """New manifests of one content and spec, and their sources. A retry reuses them if all sources with live files are still in the table."""

    format_version: int
    sources: tuple[ManifestFile, ...] = ()
    new_files: tuple[NewManifest, ...] = ()
    entries: int = 0

    def on(self, format_version: int, manifests: Sequence[ManifestFile]) -> "_ClusteredManifests | None":
        """Return the new manifests for an attempt on a base that lists `manifests`; None if they cannot be reused for it.

        Sources without live files may be missing, because every commit drops such manifests.
        """
        there = set(manifests)
        sources = tuple(manifest for manifest in self.sources if manifest in there)
        is_whole = all(manifest in there or not manifest.has_live_files for manifest in self.sources)
        return replace(self, sources=sources) if sources and is_whole and self.format_version == format_version else None


class RewriteManifests:
    """The commit action that writes the live entries of some manifests to new manifests of about `commit.manifest.target-size-bytes`.

    Encrypted manifests, and manifests of a spec with an unknown transform, cannot be written again and are kept. The new snapshot must have the same data and
    delete files as its parent.

    Attributes:
        result: the manifests that the last attempt replaced.
    """

    def __init__(
        self,
        context: CommitContext,
        numbers: ManifestNumbers,
        *,
        clustering: Clustering | None = None,
        rewrite_if: Callable[[ManifestFile], bool] | None = None,
        contents: Collection[ManifestContent] = EVERY_CONTENT,
        removed: Sequence[ManifestFile] = (),
        added: Sequence[ManifestFile] = (),
        skip_optimal: bool = False,
    ) -> None:
        """Create the action.

        Args:
            context: the ids and the branch of the commit.
            numbers: the counter for names of manifests, over all attempts of the commit.
            clustering: how entries are assigned to manifests; None rewrites nothing, and only replaces `removed` by `added`.
            rewrite_if: returns whether to rewrite a manifest; None rewrites all.
            contents: rewrite data manifests, delete manifests, or both.
            removed: manifests to remove.
            added: manifests to add, with existing entries only.
            skip_optimal: do not rewrite a spec that has a single manifest already, if this manifest has no removed entries and blocks of usual size, and would
                become one manifest again.

        Raises:
            InvalidInputError: an added manifest has added or deleted files, or a sequence number already.
        """
        self._context = context
        self._numbers = numbers
        self._clustering = clustering
        self._rewrite_if = rewrite_if
        self._contents = contents
        self._removed = tuple(dict.fromkeys(removed))
        self._added = tuple(map(_check_addable, added))
        self._skip_optimal = skip_optimal
        self._merge_manager = ManifestMergeManager(context, numbers, merges=False)
        self._clustered: dict[tuple[ManifestContent, int], _ClusteredManifests] = {}
        self.result = ReplacedManifests()

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Return the attempt on a base, see `Action.attempt`; None if nothing changes.

        Raises:
            CommitInvalidatedError: a manifest to remove is no longer in the branch.
            InvalidInputError: the removed and the added manifests have different numbers of live files, or an added manifest has entries with a status other
                than EXISTING.
        """
        parent = parent_snapshot(base, self._context.branch)
        current = tuple(read_manifests(parent, read)) if parent else ()
        self._check_removed(current, parent.snapshot_id if parent else None)
        if self._clustering is not None:
            self._rewrite(base, current, read)
        clustered = self._clustered.values()
        entries = sum(group.entries for group in clustered)
        sources = {*self._removed, *(manifest for group in clustered for manifest in group.sources)}
        remaining = tuple(manifest for manifest in current if manifest not in sources)
        new = (
            *(manifest for group in clustered for _, manifest in group.new_files),
            *(self._copy_added(base, manifest, read) for manifest in self._added),
        )
        if not sources and not new:
            self.result = ReplacedManifests(kept=remaining)
            return None
        self._check_files(sources, new, read)
        attempt = snapshot_attempt(
            base,
            self._context,
            number=number,
            now_ms=now_ms,
            new_manifests=new,
            kept_manifests=remaining,
            operation="replace",
            further_summary={"entries-processed": str(entries)},
            read=read,
            merge_manager=self._merge_manager,
            replaced_count=len(sources),
        )
        self.result = ReplacedManifests(removed=tuple(sources), added=new, kept=remaining, entries=entries, snapshot_id=attempt.snapshot_id)
        return attempt

    def _check_removed(self, current: Sequence[ManifestFile], snapshot_id: int | None) -> None:
        for manifest in self._removed:
            if manifest not in current:
                raise CommitInvalidatedError(
                    f"the manifest {manifest.manifest_path}, which this commit removes, is not in snapshot {snapshot_id}, the newest of branch "
                    f"{self._context.branch}: another commit rewrote or dropped it",
                    path=manifest.manifest_path,
                    snapshot_id=snapshot_id,
                    problems=(
                        Problem(where="expected", what=f"{manifest.manifest_path} among the manifests of {self._context.branch}"),
                        Problem(where="found", what=f"snapshot {snapshot_id} without it"),
                    ),
                    next_step="a retry will fail again: refresh the table, and choose among its current manifests",
                )

    def _rewrite(self, base: TableMetadata, current: Sequence[ManifestFile], read: Read) -> None:
        """Rewrite the chosen manifests. Contents and specs that an earlier attempt rewrote, and that no other commit has changed since, are reused."""
        groups: dict[tuple[ManifestContent, int], list[ManifestFile]] = {}
        for manifest in current:
            if self._is_chosen(base, manifest):
                groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
        clustered = {}
        for key, manifests in sorted(groups.items()):
            known_entries = self._clustered.get(key)
            reused = None if known_entries is None else known_entries.on(base.format_version, manifests)
            clustered[key] = reused or self._cluster(base, *key, manifests, read)
        # Assigned at the end, so that an attempt that fails half-way, for example on a manifest that has expired meanwhile, leaves no partial result for a
        # retry.
        self._merge_manager.add(file for group in clustered.values() for file in group.new_files)
        self._clustered = clustered

    def _is_chosen(self, base: TableMetadata, manifest: ManifestFile) -> bool:
        if manifest in self._removed or manifest.content not in self._contents or manifest.key_metadata is not None:
            return False
        if manifest.partition_spec_id in merge_rules(base).unmergeable_specs:
            return False
        return self._rewrite_if is None or self._rewrite_if(manifest)

    def _cluster(
        self, base: TableMetadata, content: ManifestContent, spec_id: int, manifests: Sequence[ManifestFile], read: Read
    ) -> _ClusteredManifests:
        """Return the rewritten manifests of one content and spec."""
        assert self._clustering is not None  # noqa: S101  checked by the caller
        entries = cluster_entries(
            manifests,
            spec_partition_type(base, spec_id),
            spec_id,
            self._clustering,
            read,
            target_bytes=merge_rules(base).target_bytes,
            parallel=self._context.parallel,
        )
        if self._skip_optimal and len(manifests) == 1 and len(entries) == 1 and _is_optimal(manifests[0], read):
            return _ClusteredManifests(format_version=base.format_version)
        targets = [manifest_target(base, content, spec_id, self._context, self._numbers) for _ in entries.rows]
        written = self._context.parallel(lambda pair: write_manifest_columns(entries.table(pair[0]), pair[1]), enumerate(targets))
        return _ClusteredManifests(
            format_version=base.format_version,
            sources=tuple(manifests),
            new_files=tuple((NewFile(location=manifest.manifest_path, content=data), manifest) for data, manifest in written),
            entries=entries.entries.num_rows,
        )

    def _copy_added(self, base: TableMetadata, manifest: ManifestFile, read: Read) -> ManifestFile:
        """Return a copy, as a manifest of this snapshot, of a manifest that the caller wrote. Raises `InvalidInputError` if an entry has no sequence number."""
        content = read(manifest.manifest_path)
        entries = read_columns(content, manifest, spec_partition_type(base, manifest.partition_spec_id)).entries
        missing = [name for name in ("sequence_number", "file_sequence_number") if base.format_version > 1 and entries[name].null_count]
        if missing:
            raise InvalidInputError(
                f"{manifest.manifest_path} cannot be added: {entries[missing[0]].null_count} of its entries have no {missing[0]}, which existing files "
                "must keep",
                path=manifest.manifest_path,
            )
        minimum = pc.min(entries["sequence_number"]).as_py() if base.format_version > 1 else 0
        counted = fill_counts(content, manifest)
        return replace(
            counted, added_snapshot_id=self._context.snapshot_id, min_sequence_number=UNASSIGNED_SEQ if minimum is None else minimum
        )

    def _check_files(self, removed: Iterable[ManifestFile], added: Iterable[ManifestFile], read: Read) -> None:
        """Check that the number of live files does not change."""
        for content in ManifestContent:
            before = _live_file_count((manifest for manifest in removed if manifest.content == content), read)
            after = _live_file_count((manifest for manifest in added if manifest.content == content), read)
            if before != after:
                raise InvalidInputError(
                    f"the removed manifests of {content.name} contain {before} live files, the added ones {after}",
                    next_step="a rewrite keeps every file: add manifests with exactly the live files of those that are removed",
                )


def _is_optimal(manifest: ManifestFile, read: Read) -> bool:
    """Return True for a manifest without removed entries and with blocks of usual size. Some writers write a block for each entry, which is slow to read."""
    return manifest.deleted_files_count == 0 and not has_small_blocks(open_manifest(read(manifest.manifest_path), manifest))


def _live_file_count(manifests: Iterable[ManifestFile], read: Read) -> int:
    count = 0
    for manifest in manifests:
        counted = manifest
        if None in (manifest.added_files_count, manifest.existing_files_count):
            counted = fill_counts(read(manifest.manifest_path), manifest)
        count += (counted.added_files_count or 0) + (counted.existing_files_count or 0)
    return count


def _check_addable(manifest: ManifestFile) -> ManifestFile:
    what = None
    if manifest.added_files_count != 0:
        what = "added files"
    elif manifest.deleted_files_count != 0:
        what = "deleted files"
    elif manifest.sequence_number != UNASSIGNED_SEQ:
        what = f"the sequence number {manifest.sequence_number} already, which the commit assigns"
    if what is not None:
        raise InvalidInputError(
            f"{manifest.manifest_path} cannot be added: it has {what}",
            path=manifest.manifest_path,
            next_step="write its entries as existing ones, with their own sequence numbers",
        )
    return manifest
