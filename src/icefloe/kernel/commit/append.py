"""`Append`: a snapshot that only adds data files (the spec's `append`). Always safe to retry on a newer base.

Floor: kernel.commit. Spec: Snapshots (operation append); Optimistic Concurrency.
"""

from collections.abc import Sequence

from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.new_manifest import ManifestNumbers, added_manifests
from icefloe.kernel.commit.snapshot_attempt import parent_snapshot, snapshot_attempt
from icefloe.kernel.commit.summary import build_summary
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.metadata.table_metadata import TableMetadata


class Append:
    """Adds `files` to the head of the context's branch. Its manifests are written at the first attempt and reused by every other."""

    def __init__(self, files: Sequence[DataFile], context: CommitContext) -> None:
        self._files = tuple(files)
        self._context = context
        self._numbers = ManifestNumbers(context)
        self._manifests: tuple[ManifestFile, ...] | None = None

    def new_data_files(self) -> Sequence[str]:
        return [file.file_path for file in self._files]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt:
        """See `Action.attempt`."""
        written = [] if self._manifests is not None else added_manifests(base, self._files, self._context, self._numbers)
        already_written = self._manifests or ()
        parent = parent_snapshot(base, self._context.branch)
        made = snapshot_attempt(
            base,
            self._context,
            number=number,
            now_ms=now_ms,
            written=written,
            already_written=already_written,
            kept=None,
            summary=build_summary(
                "append",
                added=self._files,
                deleted=(),
                previous=parent.summary if parent else None,
                extra=self._context.snapshot_properties,
            ),
            read=read,
        )
        self._manifests = made.manifests
        return made
