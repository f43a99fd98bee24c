"""`SparkCatalog`: an Icefloe catalog that implements Spark's catalog interfaces: namespaces, tables, views, functions and procedures by name.

Loaded tables are in `spark_table.py`; statements on views are in the package `statements`.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.commit.attempt import Action
from icefloe.commit.composite_action import CompositeAction
from icefloe.errors import (
    IcefloeError,
    InvalidIdentifierError,
    InvalidInputError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    UnsupportedFeatureError,
)
from icefloe.operations.commit_loop import commit
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.operations.pending_change import CommitReport
from icefloe.operations.write_result import WriteResult
from icefloe.procedures.procedure_registry import procedures_by_name
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.messages import (
    ChangelogToLoad,
    FunctionMessage,
    NamespaceChanges,
    NamespaceDefinition,
    NamespaceDrop,
    NamespaceMessage,
    NoFields,
    ProcedureMessage,
    StagedTableDefinition,
    TableChanges,
    TableDefinition,
    TableMessage,
    TableRename,
    TablesToLoad,
    TableToLoad,
)
from icefloe.spark.bridge.spark_errors import AnalysisError
from icefloe.spark.catalog.alter_table import Change, alter, change_columns
from icefloe.spark.catalog.changelog_table import CHANGES, ChangelogTable, session_procedures
from icefloe.spark.catalog.spark_changelog import SparkChangelog
from icefloe.spark.catalog.spark_metadata_table import SparkMetadataTable
from icefloe.spark.catalog.spark_procedures import SparkProcedure
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.catalog.spark_views import relation_of
from icefloe.spark.catalog.staged_table import StagedTable
from icefloe.spark.catalog.table_definition import definition_of
from icefloe.spark.functions.spark_functions import FUNCTIONS, SYSTEM, SparkFunction, find_function, is_for_functions
from icefloe.spark.scan.change_stream import ChangesTable
from icefloe.spark.scan.scan_plans import ScanCache
from icefloe.spark.scan.table_selector import TableSelection, at_timestamp, at_version, select, shown_in
from icefloe.spark.types.declared_types import check_collation
from icefloe.spark.write.sql_write import Write, write_within
from icefloe.table.table import Table

LOG = logging.getLogger(__name__)
_OWNER = "owner"


class SchemaEvolvingTable(SparkTable):
    """The table of a statement WITH SCHEMA EVOLUTION: it has the changed columns, which are committed together with the rows of the statement.

    The constructor raises the errors of the column changes.
    """

    def __init__(self, spark: SparkSession, catalog_name: str, selected: TableSelection, changes: Sequence[Change]) -> None:
        table = selected.table
        self._base = LoadedMetadata(metadata=table.metadata, location=table.metadata_location)
        self._transaction = table.transaction()
        change_columns(spark, self._transaction, changes)
        evolved_table = Table(table.handle, LoadedMetadata(metadata=self._transaction.table_metadata, location=table.metadata_location))
        super().__init__(spark, catalog_name, replace(selected, table=evolved_table))

    def identity(self) -> str:
        """Return a text that is equal for the same state of the table with the same changed columns."""
        return f"{super().identity()} {self._selected.table.schema()}"

    def _run(self, write: Write) -> WriteResult | None:
        with self._transaction:
            return write_within(self._transaction, write)

    def _commit(self, action: Action) -> CommitReport:
        columns = self._transaction.end()
        action_with_columns = CompositeAction([action] if columns is None else [columns, action])
        return commit(self._selected.table.handle, action_with_columns, self._base)


class SparkCatalog(PythonCallback):
    """An Icefloe catalog that is attached to a session under a name. Java's `SparkCatalog` and `SparkSessionCatalog` call its methods.

    All methods may raise the errors of the Icefloe catalog.
    """

    def __init__(self, spark: SparkSession, name: str, catalog: Catalog) -> None:
        self._spark = spark
        self.name = name
        self._catalog = catalog
        self._scans = ScanCache()

    @property
    def is_session_catalog(self) -> bool:
        """Whether the catalog replaces Spark's session catalog, so that it also has Spark's own tables, views and functions."""
        return self.name == "spark_catalog"

    @property
    def is_stopped(self) -> bool:
        """Whether the session was stopped."""
        return self._spark.sparkContext._jsc is None

    @property
    def catalog(self) -> Catalog:
        """The Icefloe catalog."""
        return self._catalog

    @connector_method
    def list_tables(self, request: NamespaceMessage) -> list[list[str]]:
        """Return the names of the tables in a namespace, each as its parts; the root namespace has no tables."""
        namespace = tuple(request["namespace"])
        return [list(name) for name in self._catalog.list_tables(namespace)] if namespace else []

    @connector_method
    def table_exists(self, request: TableMessage) -> bool:
        """Return whether a name is that of a table, or of a branch, tag, snapshot or metadata table of a table."""
        try:
            select(self._catalog, request["table"], self.name)
        except (NoSuchTableError, InvalidIdentifierError):
            return False
        return True

    @connector_method
    def load_table(self, request: TableToLoad) -> Any:
        """Return a table or metadata table, at the version or time in the request if it has one; for a view return Spark's relation, a Java object."""
        try:
            selected = select(self._catalog, request["table"], self.name)
        except NoSuchTableError:
            return self._load_view(request)
        if request.get("version") is not None:
            selected = at_version(selected, request["version"])
        if request.get("timestamp") is not None:
            selected = at_timestamp(selected, request["timestamp"])
        if selected.metadata_table is not None:
            table_class = ChangelogTable if selected.metadata_table == CHANGES else SparkMetadataTable
            return table_class(self._spark, self.name, selected, selected.metadata_table)
        return self._load(selected, request)

    @connector_method
    def load_changelog(self, request: ChangelogToLoad) -> SparkChangelog:
        """Return the changes of a table in the range of the request, for CHANGES in SQL and `spark.read.changes` of Spark 4.2 and later."""
        return SparkChangelog(self._spark, self.name, select(self._catalog, request["table"], self.name), request["context"])

    @connector_method
    def load_changes(self, request: TableMessage) -> ChangesTable:
        """Return the changes of a table or branch as a table, for streams with the option `read.mode`."""
        selected = select(self._catalog, request["table"], self.name)
        name = ".".join((self.name, *request["table"]))
        if selected.metadata_table is not None:
            raise InvalidInputError(
                f"{name} is a metadata table, and changes are those of the rows of a table", next_step="name the table or a branch"
            )
        return ChangesTable(self._spark, name, selected)

    @connector_method
    def load_tables(self, request: TablesToLoad) -> tuple[SparkTable, ...]:
        """Load all tables of a statement at once, so that the statement sees either all or nothing of a commit to several tables.

        Returns:
            The tables in the order of the names. Empty if a name is not that of a table (but of a view, branch or metadata table, for example), or if a table
                cannot be loaded: then Spark loads each table by a separate call, which raises the error.
        """
        try:
            tables = self._catalog.load_tables(*(tuple(table["table"]) for table in request["tables"]))
        except IcefloeError:
            LOG.debug("the tables of a statement are loaded one by one", exc_info=True)
            return ()
        return tuple(
            self._load(TableSelection(table=shown_in(self.name, table)), read_request)
            for table, read_request in zip(tables, request["tables"], strict=True)
        )

    def _load(self, selected: TableSelection, request: TableToLoad) -> SparkTable:
        """Return the table of a selection. It is sent to Java without its description if Java already has the description of this state."""
        table = SparkTable(self._spark, self.name, selected, self._scans)
        table.is_known = "known_state" in request and request["known_state"] == table.state()
        return table

    def _load_view(self, request: TableToLoad) -> Any:
        """Return Spark's relation for a view. Raises `NoSuchTableError` if there is no view with this name."""
        name = tuple(request["table"])
        if len(name) < 2 or self.is_session_catalog or not self._catalog.keeps_views or not self._catalog.view_exists(name):
            raise NoSuchTableError(f"there is no table or view {'.'.join(name)}", next_step="see SHOW TABLES and SHOW VIEWS")
        if request.get("version") is not None or request.get("timestamp") is not None:
            raise UnsupportedFeatureError(
                f"{'.'.join(name)} is a view and has no snapshots", next_step="name a table's snapshot in its query"
            )
        return relation_of(self._spark, self.name, self._catalog.load_view(name))

    @connector_method
    def create_table(self, request: TableDefinition) -> Any:
        """Create a table and return it."""
        self._catalog.create_table(tuple(request["table"]), **definition_of(self._spark, request))
        return self.load_table({"table": request["table"]})

    @connector_method
    def stage_table(self, request: StagedTableDefinition) -> StagedTable:
        """Return the staged table of a statement such as CREATE TABLE AS SELECT; the statement's commit creates or replaces the table with its rows."""
        return StagedTable(self._spark, self.name, self._catalog, request)

    @connector_method
    def alter_table(self, request: TableChanges) -> Any:
        """Apply the changes of one statement, and return the changed table."""
        selected = select(self._catalog, request["table"], self.name)
        if selected.is_part:
            raise InvalidInputError(
                f"{'.'.join(request['table'])} is a branch, tag, snapshot or metadata table and cannot be altered",
                next_step="name the table",
            )
        alter(self._spark, selected.table, request["changes"])
        return self.load_table({"table": request["table"]})

    @connector_method
    def evolve_table(self, request: TableChanges) -> PythonCallback:
        """Return the table with the changed columns of a statement WITH SCHEMA EVOLUTION. The commit of the statement's rows also commits the columns."""
        selected = select(self._catalog, request["table"], self.name)
        if selected.is_past or selected.metadata_table is not None:
            raise InvalidInputError(f"{'.'.join(request['table'])} takes no writes", next_step="name the table or a branch of it")
        return SchemaEvolvingTable(self._spark, self.name, selected, request["changes"])

    @connector_method
    def drop_table(self, request: TableMessage) -> bool:
        """Drop a table, and return False if it did not exist. Its files are not deleted."""
        return self._drop(request, self._catalog.drop_table)

    @connector_method
    def purge_table(self, request: TableMessage) -> bool:
        """Drop a table with its files, and return False if it did not exist. A warning lists files that were kept, because DROP TABLE returns no rows."""

        def purge(name: tuple[str, ...]) -> None:
            report = self._catalog.purge_table(name)
            if report.outside_files:
                LOG.warning("%s", report)

        return self._drop(request, purge)

    def _drop(self, request: TableMessage, drop: Callable[[tuple[str, ...]], object]) -> bool:
        """Call `drop` with the table's name; return False if there is no such table, or no table can have this name, as with a dot in it.

        Raises:
            InvalidInputError: The name is that of a branch, tag, snapshot or metadata table. Spark would ignore the result False, and report a success.
        """
        try:
            drop(tuple(request["table"]))
        except InvalidIdentifierError:
            return False
        except NoSuchTableError:
            if not self.table_exists(request):
                return False
            raise InvalidInputError(
                f"{'.'.join(request['table'])} is a branch, tag, snapshot or metadata table and cannot be dropped",
                next_step="drop a branch or tag with ALTER TABLE ... DROP BRANCH or DROP TAG; metadata tables exist as long as their table",
            ) from None
        return True

    @connector_method
    def rename_table(self, request: TableRename) -> None:
        """Rename a table."""
        new = tuple(request["to"])
        if len(new) > 2 and new[0] == self.name and not self._catalog.namespace_exists(new[:-1]):
            new = new[1:]  # the first part may be this catalog, which Spark does not remove from the new name
        elif len(new) == 1:
            new = (*request["table"][:-1], *new)
        self._catalog.rename_table(tuple(request["table"]), new)

    @connector_method
    def default_namespace(self, _: NoFields) -> list[str]:
        """Return the namespace that becomes current after `USE <catalog>`."""
        return list(self._catalog.default_namespace)

    @connector_method
    def list_namespaces(self, request: NamespaceMessage) -> list[list[str]]:
        """Return the names of the namespaces directly in a namespace, each as its parts."""
        return [list(name) for name in self._catalog.list_namespaces(tuple(request["namespace"]))]

    @connector_method
    def namespace_exists(self, request: NamespaceMessage) -> bool:
        """Return True if the namespace exists; the root always exists."""
        return not request["namespace"] or self._catalog.namespace_exists(tuple(request["namespace"]))

    @connector_method
    def load_namespace(self, request: NamespaceMessage) -> dict[str, str]:
        """Return the properties of a namespace."""
        return dict(self._catalog.load_namespace_properties(tuple(request["namespace"])))

    @connector_method
    def create_namespace(self, request: NamespaceDefinition) -> None:
        """Create a namespace. Raises `UnsupportedTypeError` for a default collation."""
        properties = request["properties"]
        check_collation(properties, f"the namespace {'.'.join(request['namespace'])}")
        # Spark always adds the user as the owner, which catalogs without namespace properties cannot keep.
        is_default = properties.keys() == {_OWNER} and not self.keeps_namespace_properties({})
        self._catalog.create_namespace(tuple(request["namespace"]), {} if is_default else properties)

    @connector_method
    def keeps_namespace_properties(self, _: NoFields) -> bool:
        """Return whether the catalog can store properties of namespaces; only a file-system catalog cannot."""
        return not isinstance(self._catalog, FileSystemCatalog)

    @connector_method
    def alter_namespace(self, request: NamespaceChanges) -> None:
        """Set and remove properties of a namespace."""
        updates, removals = {}, set()
        for change in request["changes"]:
            if change["kind"] == "SetProperty":
                updates[change["property"]] = change["value"]
            elif change["kind"] == "RemoveProperty":
                removals.add(change["property"])
            else:
                raise UnsupportedFeatureError(f"namespaces do not support the change {change['kind']}")
        check_collation(updates, f"the namespace {'.'.join(request['namespace'])}")
        self._catalog.update_namespace_properties(tuple(request["namespace"]), removals, updates)

    @connector_method
    def drop_namespace(self, request: NamespaceDrop) -> bool:
        """Drop a namespace, with CASCADE also its tables and views; return False if it did not exist."""
        name = tuple(request["namespace"])
        try:
            if request["cascade"]:
                self._empty(name)
            self._catalog.drop_namespace(name)
        except NoSuchNamespaceError:
            return False
        return True

    def _empty(self, name: tuple[str, ...]) -> None:
        """Drop the tables and views of a namespace. If it contains namespaces, drop nothing and raise `InvalidInputError`."""
        children = self._catalog.list_namespaces(name)
        if children:
            raise InvalidInputError(
                f"namespace {'.'.join(name)} has namespaces below it: {', '.join('.'.join(child) for child in children)}",
                next_step="drop those first: CASCADE drops the tables and views of one namespace",
            )
        for view in self._catalog.list_views(name) if self._catalog.keeps_views else ():
            with suppress(NoSuchViewError):  # another process has dropped it meanwhile
                self._catalog.drop_view(view)
        for table in self._catalog.list_tables(name):
            with suppress(NoSuchTableError):
                self._catalog.drop_table(table)

    @connector_method
    def load_function(self, request: FunctionMessage) -> SparkFunction | None:
        """Return a function of Icefloe by its name; None if there is no such function."""
        *namespace, name = request["function"]
        function = find_function(name.lower()) if is_for_functions(namespace) else None
        return None if function is None else SparkFunction(self._spark, function)

    @connector_method
    def list_functions(self, request: NamespaceMessage) -> list[list[str]]:
        """Return the names of the functions of a namespace, each as its parts. Only `system` and the root namespace have functions."""
        namespace = request["namespace"]
        if is_for_functions(namespace):
            return [[*namespace, name] for name in sorted(FUNCTIONS)]
        if not self._catalog.namespace_exists(tuple(namespace)):
            raise NoSuchNamespaceError(f"there is no namespace {'.'.join(namespace)}", next_step="see SHOW NAMESPACES")
        return []

    @connector_method
    def load_procedure(self, request: ProcedureMessage) -> SparkProcedure:
        """Return a procedure by its name in the namespace `system`. Raises `AnalysisError` if it does not exist."""
        *namespace, name = request["procedure"]
        procedure = None
        if [part.lower() for part in namespace] == [SYSTEM]:
            procedure = session_procedures(self._spark).get(name.lower()) or procedures_by_name().get(name.lower())
        if procedure is None:
            full_name = ".".join([self.name, *request["procedure"]])
            raise AnalysisError(
                f"The routine {full_name} cannot be found.",
                condition="ROUTINE_NOT_FOUND",
                parameters={"routineName": full_name},
                next_step=f"there are, in {self.name}.{SYSTEM}: {', '.join(self._procedure_names())}",
            )
        return SparkProcedure(self._spark, self.name, self._catalog, procedure)

    @connector_method
    def list_procedures(self, request: NamespaceMessage) -> list[list[str]]:
        """Return the names of the procedures of a namespace, each as its parts. Only `system` has procedures."""
        namespace = request["namespace"]
        return [[*namespace, name] for name in self._procedure_names()] if [part.lower() for part in namespace] == [SYSTEM] else []

    def _procedure_names(self) -> list[str]:
        return sorted([*procedures_by_name(), *session_procedures(self._spark)])
