"""`Append`: the action that adds data files only (operation `append`). It conflicts with no other commit, so a retry on a newer base is always safe.

JAVA: FastAppend, and MergeAppend with `merge`.
Spec: Snapshots (operation append); Optimistic Concurrency.
"""

from collections.abc import Sequence
from operator import attrgetter

from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.new_manifest import ManifestMergeManager, ManifestNumbers, added_manifests
from icefloe.commit.snapshot_attempt import snapshot_attempt
from icefloe.errors import InvalidInputError
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.table_metadata import TableMetadata


class Append:
    """The commit action that adds data files to a branch.

    The new manifests are written at the first attempt and reused by every retry. They are written again only if another writer upgraded the format version of
    the table in the meantime.
    """

    def __init__(self, files: Sequence[DataFile], context: CommitContext, *, merge: bool = True) -> None:
        """Create the action.

        Args:
            files: the data files to add, of any partition specs of the table; none for an empty snapshot.
            context: the ids and the branch of this commit.
            merge: whether small manifests of the table are merged as its `commit.manifest-merge.*` properties require (MergeAppend). Without it, manifests are
                only added, which is the fastest commit (FastAppend).

        Raises:
            InvalidInputError: one of the files is not a data file.
        """
        self._files = tuple(files)
        for file in self._files if set(map(attrgetter("content"), self._files)) - {FileContent.DATA} else ():
            if file.content != FileContent.DATA:
                raise InvalidInputError(
                    f"{file.file_path} contains {file.content.name}; an append adds data files only", path=file.file_path
                )
        self._context = context
        self._numbers = ManifestNumbers(context)
        self._merge_manager = ManifestMergeManager(context, self._numbers, merges=merge)
        self._added: tuple[int, tuple[ManifestFile, ...]] | None = None  # the format version of the new manifests, and the manifests

    def new_data_files(self) -> Sequence[str]:
        return [file.file_path for file in self._files]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt:
        return snapshot_attempt(
            base,
            self._context,
            number=number,
            now_ms=now_ms,
            new_manifests=self._added_manifests(base),
            kept_manifests=None,
            operation="append",
            added=self._files,
            read=read,
            merge_manager=self._merge_manager,
        )

    def _added_manifests(self, base: TableMetadata) -> tuple[ManifestFile, ...]:
        if self._added is None or self._added[0] != base.format_version:
            new_manifests = added_manifests(base, self._files, self._context, self._numbers)
            self._merge_manager.add(new_manifests)
            self._added = base.format_version, tuple(manifest for _, manifest in new_manifests)
        return self._added[1]
