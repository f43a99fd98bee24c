"""`Overwrite`: a snapshot that removes whole data files and may add others (the spec's `delete` and `overwrite`).

The files to remove hold for one base only: on a newer one its caller chooses again and makes a new action.
Floor: kernel.commit. Spec: Snapshots (operations delete, overwrite); Commit Conflict Resolution and Retry.
"""

from collections.abc import Mapping, Sequence

from icefloe.errors import CommitInvalidatedError
from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.new_manifest import ManifestNumbers, NewManifest, added_manifests, without_files
from icefloe.kernel.commit.snapshot_attempt import parent_snapshot, snapshot_attempt
from icefloe.kernel.commit.summary import build_summary
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.metadata.manifests import read_manifests
from icefloe.kernel.metadata.table_metadata import TableMetadata


class Overwrite:
    """Removes the live files at `removed` paths and adds `added`. `numbers` goes on counting over the attempts of one commit."""

    def __init__(self, *, removed: Sequence[str], added: Sequence[DataFile], context: CommitContext, numbers: ManifestNumbers) -> None:
        self._removed = frozenset(removed)
        self._added = tuple(added)
        self._context = context
        self._numbers = numbers

    def new_data_files(self) -> Sequence[str]:
        return [file.file_path for file in self._added]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt:
        """See `Action.attempt`.

        Raises:
            CommitInvalidatedError: a file to remove is not live in this base.
        """
        parent = parent_snapshot(base, self._context.branch)
        written = added_manifests(base, self._added, self._context, self._numbers)
        kept: list[ManifestFile] = []
        deleted: list[DataFile] = []
        replaced = 0
        for manifest in read_manifests(parent, read) if parent else ():
            changed = without_files(base, manifest, self._removed, self._context, self._numbers, read) if manifest.has_live_files else None
            if changed is not None:
                made, gone = changed
                written.append(made)
                deleted.extend(gone)
                replaced += 1
            elif manifest.has_live_files:
                kept.append(manifest)
        self._check_all_found(deleted)
        return snapshot_attempt(
            base,
            self._context,
            number=number,
            now_ms=now_ms,
            written=written,
            already_written=(),
            kept=kept,
            summary=self._summary(parent.summary if parent else None, deleted, written, kept, replaced),
            read=read,
        )

    def _check_all_found(self, deleted: Sequence[DataFile]) -> None:
        missing = self._removed - {file.file_path for file in deleted}
        if missing:
            raise CommitInvalidatedError("a file to remove is no longer in the table", path=min(missing), next_step="refresh and repeat")

    def _summary(
        self,
        previous: Mapping[str, str] | None,
        deleted: Sequence[DataFile],
        written: Sequence[NewManifest],
        kept: Sequence[ManifestFile],
        replaced: int,
    ) -> dict[str, str]:
        counts = {
            "manifests-created": str(len(written)),
            "manifests-kept": str(len(kept)),
            "manifests-replaced": str(replaced),
        }
        return build_summary(
            "overwrite" if self._added else "delete",
            added=self._added,
            deleted=deleted,
            previous=previous,
            extra={**counts, **self._context.snapshot_properties},
        )
