"""`PendingSnapshot`: what the operations of `table.update_snapshot()` have in common: files that exist already are put into one new snapshot.

The operations are `update_snapshot.py` and `file_operations.py`. Spec: Snapshots; Optimistic Concurrency; Data File Fields.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.kernel.commit.attempt import Action, Attempt, CommitContext, Read
from icefloe.kernel.commit.file_changes import DeleteKey, delete_key
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.manifest.file_rules import check_added
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.table.pending_change import Commit, MutationContext, PendingChange
from icefloe.table.rows.write_context import commit_context


@dataclass(frozen=True, slots=True)
class GivenFiles:
    """An action whose data files were there before it: they are not its own, and stay where it fails."""

    action: Action

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`."""
        return self.action.attempt(base, number=number, now_ms=now_ms, read=read)

    def new_data_files(self) -> Sequence[str]:
        return ()


class PendingSnapshot(PendingChange):
    """One snapshot that is committed at the end of its `with` block, or with `commit()`. The files are the caller's: none is deleted if the commit fails."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN
    ) -> None:
        """Raises as `commit_context`: there is no such branch, or it is a tag."""
        self._start = start
        self._commit = commit
        self._properties = dict(snapshot_properties or {})
        self._branch = branch
        self._stage_only = False
        self._committing()  # a wrong branch is refused here
        self._given: set[DeleteKey] = set()
        self._gone: set[DeleteKey] = set()

    def set(self, key: str, value: str) -> Self:
        """A key of the snapshot's summary. Those that are counted cannot be set."""
        self._properties[key] = value
        return self

    def stage_only(self) -> Self:
        """The snapshot is added to the table, and no branch moves to it: it waits for a cherry-pick."""
        self._stage_only = True
        return self

    def commit(self) -> None:
        """Commits the snapshot; nothing where nothing changes.

        Raises:
            CommitInvalidatedError: another snapshot conflicts; it is named, and what it did.
            CommitConflictError, CommitUnknownError: as every commit.
            InvalidInputError: the files contradict each other or the operation.
        """
        self._commit(GivenFiles(self._action()))

    @abstractmethod
    def _action(self) -> Action:
        """What to commit. Raises as `commit`."""

    def _committing(self) -> CommitContext:
        context = commit_context(self._start.handle, self._start.metadata, self._properties, self._branch)
        return replace(context, stage_only=context.stage_only or self._stage_only)

    def _added(self, file: DataFile, *contents: FileContent) -> DataFile:
        """A file to add. Raises `InvalidInputError` where it is wrong: of another content, of an unknown spec, listed before, not allowed by the version."""
        metadata, name = self._start.metadata, self._start.handle.table_name
        self._check_content(file, contents)
        spec = next((spec for spec in metadata.partition_specs if spec.spec_id == file.spec_id), None)
        if spec is None:
            known = ", ".join(str(spec.spec_id) for spec in metadata.partition_specs)
            raise InvalidInputError(
                f"{file.file_path} is of partition spec {file.spec_id}, which {name} does not have; it has {known}", path=file.file_path
            )
        if len(file.partition) != len(spec.fields):
            raise InvalidInputError(
                f"{file.file_path} has {len(file.partition)} partition values, and spec {file.spec_id} of {name} has {len(spec.fields)} fields",
                path=file.file_path,
            )
        check_added(file, metadata.format_version)
        key = delete_key(file)
        if key in self._given or key in self._gone:
            raise InvalidInputError(f"{file.file_path} is listed twice in this commit", path=file.file_path)
        self._given.add(key)
        return file

    def _removed(self, file: DataFile, *contents: FileContent) -> DataFile:
        """A file to remove. Raises `InvalidInputError` where it is of another content or listed before."""
        self._check_content(file, contents)
        self._remove(delete_key(file))
        return file

    def _remove(self, key: DeleteKey) -> None:
        if key in self._given or key in self._gone:
            raise InvalidInputError(f"{key[0]} is listed twice in this commit", path=key[0])
        self._gone.add(key)

    def _check_content(self, file: DataFile, contents: Iterable[FileContent]) -> None:
        if file.content not in contents:
            wanted = " or ".join(content.name for content in contents)
            raise InvalidInputError(f"{file.file_path} holds {file.content.name}; {wanted} is wanted here", path=file.file_path)

    def _known_snapshot(self, snapshot_id: int) -> int:
        """Raises `NoSuchSnapshotError` where the table does not have it."""
        if self._start.metadata.snapshot_by_id(snapshot_id) is None:
            name = self._start.handle.table_name
            raise NoSuchSnapshotError(
                f"{name} has no snapshot {snapshot_id}, which this change is to be checked from: it was expired, or never was there",
                table=name,
                snapshot_id=snapshot_id,
                next_step="read the table anew, plan the change on its newest snapshot, and name that one",
            )
        return snapshot_id
