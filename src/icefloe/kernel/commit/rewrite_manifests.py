"""`RewriteManifests`: a snapshot of the same files in other manifests (the spec's `replace`): clustered, and of the table's target size.

How the entries are put together is `clustered_entries.py`. Merging small manifests by the way, with every commit, is `manifest_merge_manager.py`.
Spec: Manifests; Manifest Lists; Snapshots (operation replace); Commit Conflict Resolution and Retry.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow.compute as pc

from icefloe.errors import CommitInvalidatedError, InvalidInputError, Problem
from icefloe.kernel.commit.attempt import Attempt, CommitContext, NewFile, Read
from icefloe.kernel.commit.clustered_entries import Clustering, clustered
from icefloe.kernel.commit.manifest_merge_manager import ManifestMergeManager, merge_rules
from icefloe.kernel.commit.new_manifest import ManifestNumbers, NewManifest, manifest_target
from icefloe.kernel.commit.snapshot_attempt import parent_snapshot, snapshot_attempt
from icefloe.kernel.commit.summary import build_summary
from icefloe.kernel.manifest.manifest_column_writer import write_manifest_columns
from icefloe.kernel.manifest.manifest_reader import fill_counts, read_columns
from icefloe.kernel.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile
from icefloe.kernel.metadata.manifests import read_manifests, spec_partition_type
from icefloe.kernel.metadata.table_metadata import TableMetadata

EVERY_CONTENT = frozenset(ManifestContent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What one attempt does: the manifests it takes away and puts in their place, those it keeps, and how many entries it wrote again."""

    removed: tuple[ManifestFile, ...] = ()
    added: tuple[ManifestFile, ...] = ()
    kept: tuple[ManifestFile, ...] = ()
    entries: int = 0
    snapshot_id: int | None = None  # None where there was nothing to do


@dataclass(slots=True)
class _Work:
    """What was rewritten for a base; a later base with the same manifests uses it again."""

    format_version: int = 0
    sources: tuple[ManifestFile, ...] = ()
    made: tuple[ManifestFile, ...] = ()
    entries: int = 0
    written: list[NewManifest] = field(default_factory=list)


class RewriteManifests:
    """Live entries of the chosen manifests go, as they are, into new manifests of about `commit.manifest.target-size-bytes`.

    `clustering` says how entries are put together; None rewrites nothing, and only `removed` and `added` manifests change places. `rewrite_if` chooses
    manifests, of the `contents` asked for. Manifests that cannot be written again (encrypted ones, or of a spec with an unknown transform) are kept. The
    snapshot holds the same data and delete files as its parent: a commit that would not is refused. `skips_good` leaves a spec's manifests alone where there
    is one already.
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
        skips_good: bool = False,
    ) -> None:
        """Raises `InvalidInputError` where an added manifest holds added or deleted files, or has a snapshot's numbers already."""
        self._context = context
        self._numbers = numbers
        self._clustering = clustering
        self._rewrite_if = rewrite_if
        self._contents = contents
        self._removed = tuple(dict.fromkeys(removed))
        self._added = tuple(map(_addable, added))
        self._skips_good = skips_good
        self._manifests = ManifestMergeManager(context, numbers, merges=False)
        self._work = _Work()
        self.done = Rewritten()

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`; None where nothing changes.

        Raises:
            CommitInvalidatedError: a manifest to remove is no longer in the branch.
            InvalidInputError: the manifests removed and added do not hold equally many files; an added one holds what a manifest cannot.
        """
        parent = parent_snapshot(base, self._context.branch)
        current = tuple(read_manifests(parent, read)) if parent else ()
        self._check_removed(current, parent.snapshot_id if parent else None)
        if self._clustering is not None:
            self._rewrite(base, current, read)
        sources = {*self._removed, *self._work.sources}
        kept = tuple(manifest for manifest in current if manifest not in sources)
        given = [self._given(base, manifest, read) for manifest in self._added]
        new = (*self._work.made, *given)
        if not sources and not new:
            self.done = Rewritten(kept=kept)
            return None
        self._check_files(sources, new, read)
        summary = build_summary("replace", previous=parent.summary if parent else None, extra=self._context.snapshot_properties)
        made = snapshot_attempt(
            base,
            self._context,
            number=number,
            now_ms=now_ms,
            new_manifests=new,
            kept=kept,
            summary={**summary, "entries-processed": str(self._work.entries)},
            read=read,
            manifests=self._manifests,
            replaced=len(sources),
        )
        self.done = Rewritten(removed=tuple(sources), added=new, kept=kept, entries=self._work.entries, snapshot_id=made.snapshot_id)
        return made

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
                    next_step="a retry will fail again: refresh, and choose among the manifests that are there now",
                )

    def _rewrite(self, base: TableMetadata, current: Sequence[ManifestFile], read: Read) -> None:
        """Writes the chosen manifests again, unless an earlier attempt did and all of them are still there."""
        work = self._work
        if work.sources and work.format_version == base.format_version and set(work.sources) <= set(current):
            return
        # Assigned at the end: an attempt that fails half way, such as on a file that was expired meanwhile, leaves no part for the next one.
        work = _Work(format_version=base.format_version)
        groups: dict[tuple[ManifestContent, int], list[ManifestFile]] = {}
        for manifest in current:
            if self._is_chosen(base, manifest):
                groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
        for (content, spec_id), manifests in sorted(groups.items()):
            self._rewrite_group(work, base, content, spec_id, manifests, read)
        work.made = tuple(manifest for _, manifest in work.written)
        self._manifests.add(work.written)
        self._work = work

    def _is_chosen(self, base: TableMetadata, manifest: ManifestFile) -> bool:
        if manifest in self._removed or manifest.content not in self._contents or manifest.key_metadata is not None:
            return False
        if manifest.partition_spec_id in merge_rules(base).unmergeable_specs:
            return False
        return self._rewrite_if is None or self._rewrite_if(manifest)

    def _rewrite_group(
        self, work: "_Work", base: TableMetadata, content: ManifestContent, spec_id: int, manifests: Sequence[ManifestFile], read: Read
    ) -> None:
        assert self._clustering is not None  # noqa: S101  asked for by the caller
        kind = spec_partition_type(base, spec_id)
        found = clustered(
            manifests, kind, spec_id, self._clustering, read, target_bytes=merge_rules(base).target_bytes, parallel=self._context.parallel
        )
        if self._skips_good and len(manifests) == 1 and len(found) == 1 and manifests[0].deleted_files_count == 0:
            return
        targets = [manifest_target(base, content, spec_id, self._context, self._numbers) for _ in found]
        made = self._context.parallel(lambda pair: write_manifest_columns(*pair), zip(found, targets, strict=True))
        work.written += [(NewFile(location=line.manifest_path, content=data), line) for data, line in made]
        work.entries += sum(entries.num_rows for entries in found)
        work.sources += tuple(manifests)

    def _given(self, base: TableMetadata, manifest: ManifestFile, read: Read) -> ManifestFile:
        """A manifest that the caller wrote, as one of this snapshot. Raises `InvalidInputError` where its entries cannot stand in it."""
        content = read(manifest.manifest_path)
        entries = read_columns(content, manifest, spec_partition_type(base, manifest.partition_spec_id)).entries
        bare = [name for name in ("sequence_number", "file_sequence_number") if base.format_version > 1 and entries[name].null_count]
        if bare:
            raise InvalidInputError(
                f"{manifest.manifest_path} cannot be added: {entries[bare[0]].null_count} of its entries have no {bare[0]}, which files that are in the "
                "table already keep",
                path=manifest.manifest_path,
            )
        least = pc.min(entries["sequence_number"]).as_py() if base.format_version > 1 else 0
        counted = fill_counts(content, manifest)
        return replace(counted, added_snapshot_id=self._context.snapshot_id, min_sequence_number=UNASSIGNED_SEQ if least is None else least)

    def _check_files(self, removed: Iterable[ManifestFile], added: Iterable[ManifestFile], read: Read) -> None:
        """The files that stay live must be as many as before."""
        for content in ManifestContent:
            before = _live_files((manifest for manifest in removed if manifest.content == content), read)
            after = _live_files((manifest for manifest in added if manifest.content == content), read)
            if before != after:
                raise InvalidInputError(
                    f"the manifests of {content.name} that are removed hold {before} live files, and those in their place {after}",
                    next_step="a rewrite keeps every file: add manifests with exactly the live files of those that are removed",
                )


def _live_files(manifests: Iterable[ManifestFile], read: Read) -> int:
    count = 0
    for manifest in manifests:
        known = manifest
        if None in (manifest.added_files_count, manifest.existing_files_count):
            known = fill_counts(read(manifest.manifest_path), manifest)
        count += (known.added_files_count or 0) + (known.existing_files_count or 0)
    return count


def _addable(manifest: ManifestFile) -> ManifestFile:
    what = None
    if manifest.added_files_count != 0:
        what = "added files"
    elif manifest.deleted_files_count != 0:
        what = "deleted files"
    elif manifest.sequence_number != UNASSIGNED_SEQ:
        what = f"the sequence number {manifest.sequence_number}, which the commit gives it"
    if what is not None:
        raise InvalidInputError(
            f"{manifest.manifest_path} cannot be added: it has {what}",
            path=manifest.manifest_path,
            next_step="write its entries as existing ones, with their own numbers",
        )
    return manifest
