"""`ManifestRewrite`: the operation `table.update_snapshot().rewrite_manifests()`; and the function behind `table.rewrite_manifests()`.

`commit/rewrite_manifests.py` does the rewrite. Spec: Manifests; Snapshots (operation replace).
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from icefloe.commit.attempt import Action
from icefloe.commit.clustered_entries import Clustering
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.rewrite_manifests import EVERY_CONTENT, ReplacedManifests, RewriteManifests
from icefloe.display.report import Facts, Report
from icefloe.display.reportable import MOST_LINES, OperationResult
from icefloe.errors import InvalidInputError
from icefloe.formatting import count_text, snapshots_text
from icefloe.operations.files.pending_snapshot import PendingSnapshot
from icefloe.operations.pending_change import ChangeTarget, Commit, MutationContext
from icefloe.operations.rows.write_context import commit_context
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import PartitionSpec


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RewriteManifestsResult(OperationResult):
    """The result of a rewrite of manifests; of a dry run, the result that the rewrite would have. `snapshot_id` is None if nothing was committed."""

    table: str
    snapshot_id: int | None
    rewritten_manifests: int  # the number of manifests that were replaced
    added_manifests: int
    kept_manifests: int
    entries: int  # the number of entries in the added manifests
    dry_run: bool = False

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the report has no list
        would = "would be " if self.dry_run else ""
        facts = (
            ("snapshot", snapshots_text((self.snapshot_id,), dry_run=self.dry_run)),
            (f"{would}rewritten", count_text(self.rewritten_manifests)),
            (f"{would}added", f"{count_text(self.added_manifests)}, {count_text(self.entries, 'entry', 'entries')}"),
            (f"{would}kept", count_text(self.kept_manifests)),
        )
        return Report(f"manifests of {self.table}", (Facts(facts),))


class ManifestRewrite(PendingSnapshot):
    """A pending snapshot of the operation `replace` that moves entries to new manifests. It adds and removes no data files and delete files."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._clustering: Clustering | None = None
        self._chosen: Callable[[ManifestFile], bool] | None = None
        self._contents: Collection[ManifestContent] = EVERY_CONTENT
        self._added_manifests: list[ManifestFile] = []
        self._removed_manifests: list[ManifestFile] = []

    def cluster_by(self, key: Callable[[DataFile], Hashable]) -> Self:
        """Write files with equal keys into the same manifests, and files with different keys into different ones.

        Args:
            key: a function that returns the key of a file. It gets files without column statistics.

        Returns:
            This update.
        """
        self._clustering = Clustering(key=key)
        return self

    def sort_by(self, *partition_fields: str) -> Self:
        """Sort the entries by partition fields.

        Args:
            *partition_fields: names of the fields; by default all fields of each spec.

        Returns:
            This update.

        Raises:
            InvalidInputError: no spec has a field of this name.
        """
        self._clustering = sorting([*self._start.metadata.partition_specs], partition_fields or None)
        return self

    def rewrite_if(self, predicate: Callable[[ManifestFile], bool]) -> Self:
        """Rewrite only the manifests that a predicate accepts. Without this call every manifest may be rewritten.

        Args:
            predicate: a function that returns True for a manifest that may be rewritten.

        Returns:
            This update.
        """
        self._chosen = predicate
        return self

    def contents(self, *contents: ManifestContent) -> Self:
        """Rewrite only data manifests, or only delete manifests; by default both are rewritten.

        Args:
            *contents: the content of the manifests to rewrite: `DATA`, `DELETES` or both.

        Returns:
            This update.
        """
        self._contents = frozenset(contents)
        return self

    def delete_manifest(self, manifest: ManifestFile) -> Self:
        """Remove a manifest. Its live files must be in manifests that are added by `add_manifest`.

        Args:
            manifest: the manifest.

        Returns:
            This update.
        """
        self._removed_manifests.append(manifest)
        return self

    def add_manifest(self, manifest: ManifestFile) -> Self:
        """Add a manifest that the caller has written, with EXISTING entries only.

        Args:
            manifest: the manifest; it is not deleted if the commit fails.

        Returns:
            This update.
        """
        self._added_manifests.append(manifest)
        return self

    def _action(self) -> Action:
        context = self._context()
        return RewriteManifests(
            context,
            ManifestNumbers(context),
            clustering=self._clustering,
            rewrite_if=self._chosen,
            contents=self._contents,
            removed=self._removed_manifests,
            added=self._added_manifests,
        )


def sorting(specs: Sequence[PartitionSpec], partition_fields: Sequence[str] | None) -> Clustering:
    """Return a clustering that sorts entries by partition fields; None sorts by all fields. Raises `InvalidInputError` for an empty list or unknown fields."""
    if partition_fields is not None and not partition_fields:
        raise InvalidInputError("sort_by names no partition field", next_step="leave it out to sort by all fields of the spec")
    names = sorted({part.name for spec in specs for part in spec.fields})
    for name in partition_fields or ():
        if name not in names:
            of = f"partition spec {specs[0].spec_id}" if len(specs) == 1 else "the partition specs"
            raise InvalidInputError(f"there is no partition field {name!r} in {of}", next_step=f"there are: {', '.join(names) or 'none'}")
    return Clustering(sort_by=None if partition_fields is None else tuple(partition_fields))


def rewrite_manifests(
    target: ChangeTarget,
    spec_id: int | None = None,
    sort_by: Sequence[str] | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    branch: str = MAIN,
    *,
    dry_run: bool = False,
) -> RewriteManifestsResult:
    """Rewrite the manifests of one partition spec to manifests of the target size. Arguments and errors are those of `TableMutations.rewrite_manifests`."""
    start = target.mutation_context()
    spec = start.metadata.spec() if spec_id is None else _spec(start.metadata, spec_id)
    context = commit_context(start.handle, start.metadata, snapshot_properties or {}, branch)
    action = RewriteManifests(
        context,
        ManifestNumbers(context),
        clustering=sorting([spec], sort_by),
        rewrite_if=lambda manifest: manifest.partition_spec_id == spec.spec_id,
        skip_optimal=True,
    )
    if dry_run:
        now_ms = max(start.handle.clock.now_ms(), start.metadata.last_updated_ms)
        action.attempt(start.metadata, number=0, now_ms=now_ms, read=start.read)
    else:
        target.apply(action)
    return result_of(start.handle.table_name, action.result, dry_run=dry_run)


def _spec(metadata: TableMetadata, spec_id: int) -> PartitionSpec:
    spec_ids = sorted(spec.spec_id for spec in metadata.partition_specs)
    if spec_id not in spec_ids:
        raise InvalidInputError(f"there is no partition spec {spec_id}", next_step=f"there are: {', '.join(map(str, spec_ids))}")
    return metadata.spec_by_id(spec_id)


def result_of(table_name: str, replaced: ReplacedManifests, *, dry_run: bool = False) -> RewriteManifestsResult:
    """Return the result of a rewrite, given the manifests that its last attempt replaced. With `dry_run`, the attempt was not committed."""
    return RewriteManifestsResult(
        table=table_name,
        dry_run=dry_run,
        snapshot_id=None if dry_run else replaced.snapshot_id,
        rewritten_manifests=len(replaced.removed),
        added_manifests=len(replaced.added),
        kept_manifests=len(replaced.kept),
        entries=replaced.entries,
    )
