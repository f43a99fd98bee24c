"""`CatalogTransaction`: changes of several tables in one commit, applied to all of them or to none; started by `catalog.transaction()`.

`icefloe.table.transaction` collects the changes of each table. The commit loop is that of single tables (`icefloe.operations.commit_loop`); it swaps the
metadata locations of all tables in one step. Spec: Optimistic Concurrency; Metastore Tables.
"""

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa

from icefloe.catalog.catalog_base import Name
from icefloe.commit.attempt import Action
from icefloe.errors import InvalidInputError, NoSuchTableError, TableAlreadyExistsError
from icefloe.operations.commit_loop import TableChange, commit_together
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import IdSource
from icefloe.spec.schema.schema import Schema
from icefloe.table.table import Table
from icefloe.table.transaction import Transaction


class Tables(Protocol):
    """The methods of a catalog that a transaction uses."""

    def load_tables(self, *identifiers: Name) -> list[Table]:
        """Return several tables as they were at one moment."""

    def resolve_name(self, name: Name) -> Identifier:
        """Return the levels of a table's name."""

    @property
    def new_table(self) -> Callable[..., tuple[TableHandle, TableMetadata]]:
        """The function `Catalog.new_table`, which returns the first metadata of a new table."""

    @property
    def replacement(self) -> Callable[..., Action]:
        """The function `Catalog.replacement`, which returns the action that replaces a table."""


class TableInTransaction(Transaction):
    """A table in a transaction of its catalog. It has the methods of `table.transaction()`, and is committed together with the other tables.

    `table` is the table as it was loaded; after the commit it is the committed table. For a table that the transaction creates, it is None until the commit.
    `attempts` is the number of attempts of the commit, 0 before the commit.
    """

    def __init__(self, handle: TableHandle, metadata: TableMetadata, table: Table | None) -> None:
        super().__init__(metadata, self._not_alone, handle, "" if table is None else table.metadata_location)
        self.table = table
        self.base = metadata
        self.attempts = 0
        self._create_namespace: Callable[[], None] | None = None

    @property
    def handle(self) -> TableHandle:
        """The table's entry in its catalog store, and the storage of its files."""
        return self._handle

    def name(self) -> Identifier:
        """Return the namespace levels and the table's name."""
        return self._handle.identifier

    def use_ids(self, ids: IdSource) -> None:
        """Use `ids` for the names of new files, so that the caller can recognize its files."""
        self._handle = replace(self._handle, ids=ids)

    def restore_namespace(self, create: Callable[[], None]) -> None:
        """Set the function that creates the namespace of a new table again if another writer drops it before the commit."""
        self._create_namespace = create

    def change(self) -> TableChange | None:
        """End the changes of this table, and return them for the commit; None if there are none."""
        action = self.end()
        if action is None and self.table is not None:
            return None
        base = LoadedMetadata(location=self.table.metadata_location if self.table is not None else "", metadata=self.base)
        return TableChange(handle=self.handle, base=base, action=action, is_new=self.table is None, create_namespace=self._create_namespace)

    def commit_transaction(self) -> Any:
        """Refuse: the catalog's transaction commits all its tables together. Raises `InvalidInputError`."""
        raise InvalidInputError(
            f"{self._handle.table_name} is part of a transaction of its catalog and is not committed alone",
            table=self._handle.table_name,
            next_step="end the block of catalog.transaction(), or change the table outside it",
        )

    def replace_with(self, action: Action) -> None:
        """Replace the table's definition, see `CatalogTransaction.replace_table`.

        Args:
            action: the replacement.
        """
        self.apply(action)

    def _not_alone(self, _: Action) -> None:
        self.commit_transaction()


class CreateTableTransaction(TableInTransaction):
    """A transaction that creates a table together with its first changes. It is committed at the end of a `with` block or by `commit_transaction()`."""

    def commit_transaction(self) -> Table:
        """Create the table with every change, and end the transaction.

        Returns:
            The table.

        Raises:
            TableAlreadyExistsError: another writer created it meanwhile.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        """
        change = TableChange(handle=self.handle, base=LoadedMetadata(location="", metadata=self.base), action=self.end(), is_new=True)
        (report,) = commit_together([change])
        self.table = Table(self.handle, report.loaded)
        self.run_afterwards()
        return self.table


class CatalogTransaction:
    """Changes of several tables that are committed together at the end of a `with` block, unless the block ends in an error.

    If another writer commits to one of the tables first, the changes of all tables are applied again to their newest versions. If the changes of one table
    cannot be applied, the commit fails with a conflict for all of them. Tables that were only read are not checked.
    """

    def __init__(self, catalog: Tables) -> None:
        self._catalog = catalog
        self._members: dict[Identifier, TableInTransaction] = {}
        self._is_open = True

    def load_table(self, identifier: Name) -> TableInTransaction:
        """Return a table to change. Calls with the same name return the same object.

        Args:
            identifier: its name, `"namespace.table"` or a tuple of levels.

        Returns:
            The table in this transaction.

        Raises:
            IcefloeError: as for `Catalog.load_table`.
        """
        return self.load_tables(identifier)[0]

    def load_tables(self, *identifiers: Name) -> list[TableInTransaction]:
        """Return several tables as they were at one moment.

        Args:
            *identifiers: their names.

        Returns:
            The tables in this transaction, in the order of the names.

        Raises:
            IcefloeError: as for `Catalog.load_tables`.
        """
        self._check_open()
        names = [self._catalog.resolve_name(identifier) for identifier in identifiers]
        new = [name for name in dict.fromkeys(names) if name not in self._members]
        for table in self._catalog.load_tables(*new) if new else ():
            self._check_member(table.name())
            self._members[table.name()] = TableInTransaction(table.handle, table.metadata, table)
        return [self._members[name] for name in names]

    def create_table(self, identifier: Name, schema: Schema | pa.Schema, **options: Any) -> TableInTransaction:
        """Create a table in this transaction; it exists for others after the commit.

        Args:
            identifier: its name, `"namespace.table"` or a tuple of levels.
            schema: as for `Catalog.create_table`.
            **options: the other arguments of `Catalog.create_table`.

        Returns:
            The table in this transaction.

        Raises:
            IcefloeError: as for `Catalog.create_table`.
        """
        self._check_open()
        name = self._catalog.resolve_name(identifier)
        if name in self._members:
            raise TableAlreadyExistsError(
                f"table {dotted(name)!r} is in this transaction already", table=dotted(name), next_step="choose another name"
            )
        self._check_member(name)
        handle, metadata = self._catalog.new_table(name, schema, **options)
        self._members[name] = TableInTransaction(handle, metadata, None)
        return self._members[name]

    def replace_table(self, identifier: Name, schema: Schema | pa.Schema, **options: Any) -> TableInTransaction:
        """Replace a table's definition and remove its rows; rows appended to it are part of the same commit.

        Args:
            identifier: its name, `"namespace.table"` or a tuple of levels.
            schema: as for `Catalog.create_table`.
            **options: the other arguments of `Catalog.replace_table`.

        Returns:
            The table in this transaction.

        Raises:
            IcefloeError: as for `Catalog.replace_table`.
        """
        member = self.load_table(identifier)
        member.replace_with(self._catalog.replacement(member.table_metadata, schema, **options))
        return member

    def create_or_replace_table(self, identifier: Name, schema: Schema | pa.Schema, **options: Any) -> TableInTransaction:
        """Replace the table if it exists, else create it.

        Args:
            identifier: its name, `"namespace.table"` or a tuple of levels.
            schema: as for `Catalog.create_table`.
            **options: the other arguments of `Catalog.create_table`.

        Returns:
            The table in this transaction.

        Raises:
            IcefloeError: as for `create_table` and `replace_table`.
        """
        try:
            return self.replace_table(identifier, schema, **options)
        except NoSuchTableError:
            return self.create_table(identifier, schema, **options)

    def commit_transaction(self) -> None:
        """Commit every change of every table, all or none, and end the transaction. Without changes there is no commit.

        Raises:
            CommitConflictError: another writer changed what one of the changes is based on, or won every retry. Nothing was changed.
            CommitUnknownError: it is unknown whether the commit happened. It happened for all tables or for none.
            NoSuchTableError: a table was dropped meanwhile.
            TableAlreadyExistsError: another writer created a table with the name of a new table meanwhile.
        """
        self._check_open()
        self._is_open = False
        changed: list[TableInTransaction] = []
        changes: list[TableChange] = []
        for member in self._members.values():
            change = member.change()
            if change is not None:
                changed.append(member)
                changes.append(change)
        if not changes:
            return
        for member, report in zip(changed, commit_together(changes), strict=True):
            member.table = Table(member.handle, report.loaded)
            member.attempts = report.attempts
        for member in changed:
            member.run_afterwards()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit_transaction()
        else:
            self.give_up()

    def give_up(self) -> None:
        """End the transaction without a commit, and delete the data files written for it; do nothing if it has ended already."""
        if self._is_open:
            self._is_open = False
            for member in self._members.values():
                member.give_up()

    def _check_member(self, name: Identifier) -> None:
        """Check that the table can be committed together with the others. This class allows every table."""

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError(
                "this transaction is over: it was committed, or its block ended in an error",
                next_step="start another with catalog.transaction()",
            )
