"""`ManifestRewrite`: what `table.update_snapshot().rewrite_manifests()` gives, and the short way to it, `table.rewrite_manifests()`.

What is done is `kernel/commit/rewrite_manifests.py`. Spec: Manifests; Snapshots (operation replace).
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.attempt import Action
from icefloe.kernel.commit.clustered_entries import Clustering
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.commit.rewrite_manifests import EVERY_CONTENT, RewriteManifests, Rewritten
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.table.files.pending_snapshot import PendingSnapshot
from icefloe.table.pending_change import Commit, MutationContext


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifestsResult:
    """What a rewrite of manifests did. `snapshot_id` is None where there was nothing to do."""

    snapshot_id: int | None
    rewritten_manifests: int  # that are not in the table any more
    added_manifests: int
    kept_manifests: int
    entries: int  # written again

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return f"rewrite manifests: nothing to do, {self.kept_manifests:,} kept"
        return (
            f"rewrite manifests: {self.rewritten_manifests:,} became {self.added_manifests:,} with {self.entries:,} entries, "
            f"{self.kept_manifests:,} kept (snapshot {self.snapshot_id})"
        )


class ManifestRewrite(PendingSnapshot):
    """A `replace` that moves entries between manifests: no file is added or removed."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._clustering: Clustering | None = None
        self._chosen: Callable[[ManifestFile], bool] | None = None
        self._contents: Collection[ManifestContent] = EVERY_CONTENT
        self._added_manifests: list[ManifestFile] = []
        self._removed_manifests: list[ManifestFile] = []

    def cluster_by(self, key: Callable[[DataFile], Hashable]) -> Self:
        """Files for which the function gives equal values share manifests, and others do not. It sees no column statistics."""
        self._clustering = Clustering(key=key)
        return self

    def sort_by(self, *partition_fields: str) -> Self:
        """Entries are sorted by these partition fields, by all of each spec where none is named. Raises `InvalidInputError` for a name that no spec has."""
        self._clustering = sorting([*self._start.metadata.partition_specs], partition_fields or None)
        return self

    def rewrite_if(self, predicate: Callable[[ManifestFile], bool]) -> Self:
        """Only manifests for which it is true are rewritten."""
        self._chosen = predicate
        return self

    def contents(self, *contents: ManifestContent) -> Self:
        """Only data manifests, or only delete manifests; without it both."""
        self._contents = frozenset(contents)
        return self

    def delete_manifest(self, manifest: ManifestFile) -> Self:
        """Takes a manifest out; its live files must be in those that are added."""
        self._removed_manifests.append(manifest)
        return self

    def add_manifest(self, manifest: ManifestFile) -> Self:
        """Puts in a manifest that was written already, of EXISTING entries alone. It is the caller's where the commit fails."""
        self._added_manifests.append(manifest)
        return self

    def _action(self) -> Action:
        context = self._committing()
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
    """Return a sort by these partition fields, by all of each spec for None. Raises `InvalidInputError` for no field, and for a name that no spec has."""
    if partition_fields is not None and not partition_fields:
        raise InvalidInputError("sort_by names no partition field", next_step="leave it out to sort by all fields of the spec")
    known = sorted({part.name for spec in specs for part in spec.fields})
    for name in partition_fields or ():
        if name not in known:
            of = f"partition spec {specs[0].spec_id}" if len(specs) == 1 else "the partition specs"
            raise InvalidInputError(f"there is no partition field {name!r} in {of}", next_step=f"there are: {', '.join(known) or 'none'}")
    return Clustering(sort_by=None if partition_fields is None else tuple(partition_fields))


def chosen_spec(metadata: TableMetadata, spec_id: int | None) -> PartitionSpec:
    """Return the spec of an id, the table's for None. Raises `InvalidInputError` where the table has no such spec."""
    if spec_id is None:
        return metadata.spec()
    known = sorted(spec.spec_id for spec in metadata.partition_specs)
    if spec_id not in known:
        raise InvalidInputError(f"there is no partition spec {spec_id}", next_step=f"there are: {', '.join(map(str, known))}")
    return metadata.spec_by_id(spec_id)


def result_of(done: Rewritten) -> RewriteManifestsResult:
    """The numbers of an action's last attempt."""
    return RewriteManifestsResult(
        snapshot_id=done.snapshot_id,
        rewritten_manifests=len(done.removed),
        added_manifests=len(done.added),
        kept_manifests=len(done.kept),
        entries=done.entries,
    )
