"""`Append`: a snapshot that only adds data files (the spec's `append`). Always safe to retry on a newer base.

Floor: kernel.commit. Spec: Snapshots (operation append); Optimistic Concurrency.
"""

from collections.abc import Sequence

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.new_manifest import ManifestNumbers, added_manifests
from icefloe.kernel.commit.snapshot_attempt import parent_snapshot, path_of_partition, snapshot_attempt
from icefloe.kernel.commit.summary import build_summary
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.metadata.table_metadata import TableMetadata


class Append:
    """Adds `files` to the head of the context's branch. Its manifests are written at the first attempt and reused by every other.

    Only where another writer upgraded the table meanwhile are they written again, in the new version's form.

    Raises:
        InvalidInputError: one of the files is not a data file.
    """

    def __init__(self, files: Sequence[DataFile], context: CommitContext) -> None:
        self._files = tuple(files)
        for file in self._files:
            if file.content != FileContent.DATA:
                raise InvalidInputError(f"{file.file_path} holds {file.content.name}; an append adds data files only", path=file.file_path)
        self._context = context
        self._numbers = ManifestNumbers(context)
        self._manifests: tuple[ManifestFile, ...] | None = None
        self._written_for = 0  # the format version of those manifests

    def new_data_files(self) -> Sequence[str]:
        return [file.file_path for file in self._files]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt:
        """See `Action.attempt`."""
        already_written = self._manifests if self._manifests is not None and self._written_for == base.format_version else None
        written = [] if already_written is not None else added_manifests(base, self._files, self._context, self._numbers)
        parent = parent_snapshot(base, self._context.branch)
        made = snapshot_attempt(
            base,
            self._context,
            number=number,
            now_ms=now_ms,
            written=written,
            already_written=already_written or (),
            kept=None,
            summary=build_summary(
                "append",
                added=self._files,
                deleted=(),
                previous=parent.summary if parent else None,
                extra=self._context.snapshot_properties,
                partition_path=path_of_partition(base),
            ),
            read=read,
        )
        self._manifests, self._written_for = made.manifests, base.format_version
        return made
