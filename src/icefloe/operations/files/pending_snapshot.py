"""`PendingSnapshot`: the base class of the operations of `table.update_snapshot()`, which add and remove existing files in one new snapshot.

The operations are in `update_snapshot.py` and `file_operations.py`. Spec: Snapshots; Optimistic Concurrency; Data File Fields.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from icefloe.commit.attempt import Action, Attempt, CommitContext, Read
from icefloe.commit.file_changes import DeleteKey, delete_key
from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.operations.pending_change import Commit, MutationContext, PendingChange
from icefloe.operations.rows.write_context import commit_context
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.file_rules import check_added
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class GivenFiles:
    """Wraps an action so that its files are not deleted if the commit fails, because they belong to the caller."""

    action: Action

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        return self.action.attempt(base, number=number, now_ms=now_ms, read=read)

    def new_data_files(self) -> Sequence[str]:
        """Return no files, because only the files that this method returns are deleted if the commit fails."""
        return ()


class PendingSnapshot(PendingChange):
    """A new snapshot, which is committed at the end of a `with` block or by `commit()`. Base class of the operations of `table.update_snapshot()`.

    The added files belong to the caller: they are not deleted if the commit fails.
    """

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN
    ) -> None:
        """Start a snapshot on a branch. Raises the errors of `commit_context`, for example if the branch does not exist."""
        self._start = start
        self._commit = commit
        self._properties = dict(snapshot_properties or {})
        self._branch = branch
        self._stage_only = False
        self._context()  # raises if the branch does not exist or is a tag
        self._added_keys: set[DeleteKey] = set()
        self._removed_keys: set[DeleteKey] = set()

    def set(self, key: str, value: str) -> Self:
        """Set an entry of the snapshot's summary. Entries that Icefloe counts, such as `added-records`, cannot be set.

        Args:
            key: the key.
            value: its value.

        Returns:
            This snapshot.
        """
        self._properties[key] = value
        return self

    def stage_only(self) -> Self:
        """Add the snapshot to the table without moving the branch to it; it can be cherry-picked later.

        Returns:
            This snapshot.
        """
        self._stage_only = True
        return self

    def commit(self) -> None:
        """Commit the snapshot; do nothing if it changes nothing.

        Raises:
            CommitInvalidatedError: a snapshot of another writer conflicts with this one; the error has its id and operation.
            CommitConflictError: other writers won every retry.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
            InvalidInputError: the files contradict each other or the operation.
        """
        self._commit(GivenFiles(self._action()))

    @abstractmethod
    def _action(self) -> Action:
        """Return the action that `commit` commits. Raises the errors of `commit`."""

    def _context(self) -> CommitContext:
        context = commit_context(self._start.handle, self._start.metadata, self._properties, self._branch)
        return replace(context, stage_only=context.stage_only or self._stage_only)

    def _check_added(self, file: DataFile, *contents: FileContent) -> DataFile:
        """Check a file that is to be added, and return the file.

        Raises:
            InvalidInputError: the file has another content or an unknown spec, is listed already, or is not allowed in the table's format version.
        """
        metadata, name = self._start.metadata, self._start.handle.table_name
        self._check_content(file, contents)
        spec = next((spec for spec in metadata.partition_specs if spec.spec_id == file.spec_id), None)
        if spec is None:
            spec_ids = ", ".join(str(spec.spec_id) for spec in metadata.partition_specs)
            raise InvalidInputError(
                f"{file.file_path} is of partition spec {file.spec_id}, which {name} does not have; it has {spec_ids}",
                table=name,
                path=file.file_path,
                next_step="write the file with one of these specs",
            )
        if len(file.partition) != len(spec.fields):
            raise InvalidInputError(
                f"{file.file_path} has {len(file.partition)} partition values, and spec {file.spec_id} of {name} has {len(spec.fields)} fields",
                table=name,
                path=file.file_path,
                next_step=f"state the {len(spec.fields)} values of spec {file.spec_id}",
            )
        check_added(file, metadata.format_version)
        key = delete_key(file)
        if key in self._added_keys or key in self._removed_keys:
            raise self._listed_twice(file.file_path)
        self._added_keys.add(key)
        return file

    def _check_removed(self, file: DataFile, *contents: FileContent) -> DataFile:
        """Check a file that is to be removed, and return the file. Raises `InvalidInputError` if it has another content, or is listed already."""
        self._check_content(file, contents)
        self._remove(delete_key(file))
        return file

    def _remove(self, key: DeleteKey) -> None:
        if key in self._added_keys or key in self._removed_keys:
            raise self._listed_twice(key[0])
        self._removed_keys.add(key)

    def _listed_twice(self, path: str) -> InvalidInputError:
        return InvalidInputError(
            f"{path} is listed twice in this commit",
            table=self._start.handle.table_name,
            path=path,
            next_step="add or remove each file once",
        )

    def _check_content(self, file: DataFile, contents: Iterable[FileContent]) -> None:
        if file.content not in contents:
            expected = " or ".join(content.name for content in contents)
            raise InvalidInputError(
                f"{file.file_path} contains {file.content.name}; {expected} is required here",
                table=self._start.handle.table_name,
                path=file.file_path,
                next_step="add data files with add_file, and delete files with add_deletes",
            )

    def _known_snapshot(self, snapshot_id: int) -> int:
        """Check that the table has a snapshot, and return its id. Raises `NoSuchSnapshotError`."""
        if self._start.metadata.snapshot_by_id(snapshot_id) is None:
            name = self._start.handle.table_name
            raise NoSuchSnapshotError(
                f"{name} has no snapshot {snapshot_id}, from which this change is to be checked: it was expired, or never existed",
                table=name,
                snapshot_id=snapshot_id,
                next_step="load the table again, plan the change on its newest snapshot, and name that one",
            )
        return snapshot_id
