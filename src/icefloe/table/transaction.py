"""`Transaction`: what `table.transaction()` gives: several changes of a table's rows and metadata as one commit.

How changes are put on one another is `kernel/commit/together.py`; what each write does is `writes.py`. Floor: table. Spec: Optimistic Concurrency.
"""

from collections.abc import Mapping, Sequence
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
from icefloe.kernel.commit.together import StagedFiles, Together
from icefloe.kernel.expressions.parse import to_expression
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.update import apply_updates
from icefloe.table.commit_loop import delete_quietly
from icefloe.table.handle import TableHandle
from icefloe.table.pending_change import Commit
from icefloe.table.update_layout import UpdateSortOrder, UpdateSpec
from icefloe.table.update_schema import UpdateSchema
from icefloe.table.update_statistics import UpdateStatistics
from icefloe.table.writes import append, delete_keys, replace_rows


class Transaction:
    """Changes that are committed together at the end of a `with` block, unless the block ends in an error. Each sees those before it.

    Each write of rows is a snapshot of its own. Beside other writers the whole is as any single change: made again on the newer table where what it is based on
    is as it was, a conflict where not. Files of rows are written at once; a transaction that ends in an error deletes its own.
    """

    def __init__(self, base: TableMetadata, commit: Commit, handle: TableHandle) -> None:
        self._working = base
        self._commit = commit
        self._handle = handle
        self._actions: list[Action] = []
        self._staged = StagedFiles()
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

    def update_statistics(self) -> UpdateStatistics:
        """Changes of which statistics files snapshots have, as `table.update_statistics()`."""
        self._check_open()
        return UpdateStatistics(self._working, self._stage)

    def append(self, df: Any, snapshot_properties: Mapping[str, str] | None = None) -> Self:
        """Adds rows, as `table.append()`."""
        self._check_open()
        self._stage(append(self._handle, self._working, df, snapshot_properties or {}).action)
        return self

    def delete(
        self,
        delete_filter: str | BooleanExpression = AlwaysTrue(),  # noqa: B008  a frozen value
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
    ) -> Self:
        """Deletes the rows for which the filter is true, those this transaction added too, as `table.delete()`."""
        return self._replace(None, delete_filter, snapshot_properties, case_sensitive)

    def overwrite(
        self,
        df: Any,
        overwrite_filter: str | BooleanExpression = AlwaysTrue(),  # noqa: B008  a frozen value
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
    ) -> Self:
        """Deletes the rows for which the filter is true and adds `df`, as `table.overwrite()`."""
        return self._replace(df, overwrite_filter, snapshot_properties, case_sensitive)

    def delete_keys(
        self, rows: Any, key_columns: Sequence[str] | None = None, snapshot_properties: Mapping[str, str] | None = None
    ) -> Self:
        """Deletes the rows whose key columns equal those of one of `rows`, as `table.delete_keys()`; rows that are appended later stay."""
        self._check_open()
        self._stage(delete_keys(self._handle, self._working, rows, key_columns, snapshot_properties or {}).action, keeps_idle=True)
        return self

    def set_properties(self, properties: Mapping[str, Any] | None = None, **more: Any) -> Self:
        """Sets table properties, others stay. Raises `InvalidPropertyError`."""
        given, new_uuid = {**(properties or {}), **more}, self._handle.ids.uuid()
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
        new_uuid = self._handle.ids.uuid()
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
            self._commit(Together(self._actions, self._staged))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit_transaction()
        elif self._is_open:
            self._is_open = False
            delete_quietly(self._handle, [location for action in self._actions for location in action.new_data_files()])

    def _replace(
        self, rows: Any, row_filter: str | BooleanExpression, snapshot_properties: Mapping[str, str] | None, case_sensitive: bool
    ) -> Self:
        self._check_open()
        write = replace_rows(
            self._handle, self._working, rows, to_expression(row_filter), snapshot_properties or {}, case_sensitive=case_sensitive
        )
        self._stage(write.action, keeps_idle=True)
        return self

    def _stage(self, action: Action, *, keeps_idle: bool = False) -> None:
        """Makes the action's change on the working metadata, so that a wrong one is refused here, and keeps it for the commit.

        With `keeps_idle` also where it has nothing to do: a delete may have after a lost race.
        """
        self._check_open()
        now_ms = max(self._handle.clock.now_ms(), self._working.last_updated_ms)
        try:
            made = action.attempt(self._working, number=0, now_ms=now_ms, read=self._staged.reading(self._handle.io.read))
            if made is not None:
                self._working = apply_updates(self._working, made.updates, now_ms)
                self._staged.add(made)
            if made is not None or keeps_idle:
                self._actions.append(action)
        except BaseException:
            delete_quietly(self._handle, action.new_data_files())
            raise

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError(
                "this transaction is over: it was committed, or its block ended in an error",
                next_step="begin another with table.transaction()",
            )
