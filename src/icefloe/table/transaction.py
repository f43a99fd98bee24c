"""`Transaction`: what `table.transaction()` gives: several changes of a table's metadata as one commit.

How changes are put on one another is `kernel/commit/together.py`. Floor: table. Spec: Optimistic Concurrency.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.attempt import Action
from icefloe.kernel.commit.change_properties import (
    location_updates,
    property_requirements,
    remove_property_updates,
    set_property_updates,
    version_updates,
)
from icefloe.kernel.commit.metadata_change import MetadataChange
from icefloe.kernel.commit.together import Together
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.update import apply_updates
from icefloe.kernel.ports import Clock, FileIO, IdSource
from icefloe.table.pending_change import Commit
from icefloe.table.update_layout import UpdateSortOrder, UpdateSpec
from icefloe.table.update_schema import UpdateSchema


class Transaction:
    """Changes that are committed together at the end of a `with` block, unless the block ends in an error. Each sees those before it.

    Beside other writers the whole is as any single change: made again on the newer table where what it is based on is as it was, a conflict where not.
    """

    def __init__(self, base: TableMetadata, commit: Commit, clock: Clock, io: FileIO, ids: IdSource) -> None:
        self._working = base
        self._commit = commit
        self._clock = clock
        self._io = io
        self._ids = ids
        self._actions: list[Action] = []
        self._is_open = True

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata as the changes so far make it. Nothing of them is in the catalog yet."""
        return self._working

    def update_schema(self, allow_incompatible_changes: bool = False, case_sensitive: bool = True) -> UpdateSchema:
        """Changes of the columns, as `table.update_schema()`; their own `with` block ends with a part of this transaction."""
        self._check_open()
        return UpdateSchema(
            self._working, self._stage, allow_incompatible_changes=allow_incompatible_changes, case_sensitive=case_sensitive
        )

    def update_spec(self, case_sensitive: bool = True) -> UpdateSpec:
        """Changes of the partition spec, as `table.update_spec()`."""
        self._check_open()
        return UpdateSpec(self._working, self._stage, case_sensitive=case_sensitive)

    def update_sort_order(self, case_sensitive: bool = True) -> UpdateSortOrder:
        """A new sort order, as `table.update_sort_order()`."""
        self._check_open()
        return UpdateSortOrder(self._working, self._stage, case_sensitive=case_sensitive)

    def set_properties(self, properties: Mapping[str, Any] | None = None, **more: Any) -> Self:
        """Sets table properties, others stay. Raises `InvalidPropertyError`."""
        given, new_uuid = {**(properties or {}), **more}, self._ids.uuid()
        self._stage(MetadataChange(lambda base: set_property_updates(base, given, new_uuid), property_requirements(self._working)))
        return self

    def remove_properties(self, *names: str) -> Self:
        """Removes table properties; names that are not there are no error."""
        self._stage(MetadataChange(lambda base: remove_property_updates(base, names), property_requirements(self._working)))
        return self

    def upgrade_table_version(self, format_version: int) -> Self:
        """Raises the table's format version; what the newer one allows may follow in the same transaction.

        Raises:
            InvalidInputError: a lower version than the table's.
            UnsupportedFormatVersionError: a version that Icefloe does not write.
        """
        new_uuid = self._ids.uuid()
        self._stage(MetadataChange(lambda base: version_updates(base, format_version, new_uuid), property_requirements(self._working)))
        return self

    def set_location(self, location: str) -> Self:
        """New files of the table go there from now on; those that are there stay where they are. Raises `InvalidInputError` for an empty one."""
        self._stage(MetadataChange(lambda base: location_updates(base, location), property_requirements(self._working)))
        return self

    def commit_transaction(self) -> None:
        """Commits every change as one version of the table; nothing where nothing changes. The transaction is over then.

        Raises:
            CommitConflictError: another writer changed what one of the changes is based on. Nothing is changed: refresh the table and look again.
        """
        self._check_open()
        self._is_open = False
        if self._actions:
            self._commit(Together(self._actions))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit_transaction()
        self._is_open = False

    def _stage(self, action: Action) -> None:
        """Makes the action's change on the working metadata, so that a wrong one is refused here, and keeps it for the commit."""
        self._check_open()
        now_ms = max(self._clock.now_ms(), self._working.last_updated_ms)
        made = action.attempt(self._working, number=0, now_ms=now_ms, read=self._io.read)
        if made is not None:
            self._working = apply_updates(self._working, made.updates, now_ms)
            self._actions.append(action)

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError(
                "this transaction is over: it was committed, or its block ended in an error",
                next_step="begin another with table.transaction()",
            )
