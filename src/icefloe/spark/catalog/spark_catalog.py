"""`SparkCatalog`: an Icefloe catalog as Spark SQL asks it: namespaces and tables by name.

A loaded table answers in `spark_table.py`.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import InvalidInputError, NoSuchNamespaceError, NoSuchTableError, NoSuchViewError, UnsupportedFeatureError
from icefloe.procedures.procedure_registry import procedures_by_name
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.spark_errors import AnalysisError
from icefloe.spark.catalog.alter_table import alter
from icefloe.spark.catalog.changelog_table import CHANGES, ChangelogTable, session_procedures
from icefloe.spark.catalog.schema_evolving_table import SchemaEvolvingTable
from icefloe.spark.catalog.spark_metadata_table import SparkMetadataTable
from icefloe.spark.catalog.spark_procedures import SparkProcedure
from icefloe.spark.catalog.spark_table import SparkTable
from icefloe.spark.catalog.spark_views import relation_of
from icefloe.spark.catalog.staged_table import StagedTable
from icefloe.spark.catalog.table_definition import definition_of
from icefloe.spark.functions.spark_functions import FUNCTIONS, SYSTEM, SparkFunction, is_for_functions
from icefloe.spark.scan.table_selector import at_timestamp, at_version, select

Asked = Mapping[str, Any]

LOG = logging.getLogger(__name__)
_OWNER = "owner"


class SparkCatalog(PythonCallback):
    """One catalog under the name it has in one session."""

    def __init__(self, spark: SparkSession, name: str, catalog: Catalog) -> None:
        self._spark = spark
        self.name = name
        self._catalog = catalog

    @property
    def is_session_catalog(self) -> bool:
        """Whether Spark's own tables lie in it too, and its views and functions are Spark's."""
        return self.name == "spark_catalog"

    @property
    def catalog(self) -> Catalog:
        """The catalog that is asked."""
        return self._catalog

    @connector_method
    def list_tables(self, asked: Asked) -> list[list[str]]:
        namespace = tuple(asked["namespace"])
        return [list(name) for name in self._catalog.list_tables(namespace)] if namespace else []

    @connector_method
    def table_exists(self, asked: Asked) -> bool:
        try:
            select(self._catalog, asked["table"])
        except NoSuchTableError:
            return False
        return True

    @connector_method
    def load_table(self, asked: Asked) -> Any:
        """Return a table, or Spark's own relation of a view."""
        try:
            selected = select(self._catalog, asked["table"])
        except NoSuchTableError:
            return self._load_view(asked)
        if asked.get("version") is not None:
            selected = at_version(selected, asked["version"])
        if asked.get("timestamp") is not None:
            selected = at_timestamp(selected, asked["timestamp"])
        if selected.metadata_table is not None:
            kind = ChangelogTable if selected.metadata_table == CHANGES else SparkMetadataTable
            return kind(self._spark, self.name, selected, selected.metadata_table)
        return SparkTable(self._spark, self.name, selected)

    def _load_view(self, asked: Asked) -> Any:
        """Raises `NoSuchTableError` where there is no view either."""
        name = tuple(asked["table"])
        if len(name) < 2 or self.is_session_catalog or not self._catalog.keeps_views or not self._catalog.view_exists(name):
            raise NoSuchTableError(f"there is no table or view {'.'.join(name)}", next_step="see SHOW TABLES and SHOW VIEWS")
        if asked.get("version") is not None or asked.get("timestamp") is not None:
            raise UnsupportedFeatureError(
                f"{'.'.join(name)} is a view and has no snapshots", next_step="name a table's snapshot in its query"
            )
        return relation_of(self._spark, self.name, self._catalog.load_view(name))

    @connector_method
    def create_table(self, asked: Asked) -> Any:
        self._catalog.create_table(tuple(asked["table"]), **definition_of(asked))
        return self.load_table(asked)

    @connector_method
    def stage_table(self, asked: Asked) -> StagedTable:
        """A table that the statement makes or replaces, whose rows are written before anybody sees it."""
        return StagedTable(self._spark, self.name, self._catalog, asked)

    @connector_method
    def alter_table(self, asked: Asked) -> Any:
        selected = select(self._catalog, asked["table"])
        if selected.is_part:
            raise InvalidInputError(f"{'.'.join(asked['table'])} is a part of a table and cannot be altered", next_step="name the table")
        alter(self._spark, selected.table, asked["changes"])
        return self.load_table(asked)

    @connector_method
    def evolve_table(self, asked: Asked) -> PythonCallback:
        """The table with columns changed as a statement WITH SCHEMA EVOLUTION needs them, which its own commit will change."""
        selected = select(self._catalog, asked["table"])
        if selected.is_past or selected.metadata_table is not None:
            raise InvalidInputError(f"{'.'.join(asked['table'])} takes no writes", next_step="name the table or a branch of it")
        return SchemaEvolvingTable(self._spark, self.name, selected, asked["changes"])

    @connector_method
    def drop_table(self, asked: Asked) -> bool:
        return self._drop(asked, self._catalog.drop_table)

    @connector_method
    def purge_table(self, asked: Asked) -> bool:
        """Whether there was such a table. DROP TABLE has no rows to name files in that were kept: a warning does."""

        def purge(name: tuple[str, ...]) -> None:
            report = self._catalog.purge_table(name)
            if report.outside_files:
                LOG.warning("%s", report)

        return self._drop(asked, purge)

    def _drop(self, asked: Asked, drop: Callable[[tuple[str, ...]], object]) -> bool:
        """Whether there was such a table. Spark, which found a part of one before, would take it for dropped."""
        try:
            drop(tuple(asked["table"]))
        except NoSuchTableError:
            if not self.table_exists(asked):
                return False
            raise InvalidInputError(
                f"{'.'.join(asked['table'])} is a part of a table and cannot be dropped",
                next_step="branches and tags go by ALTER TABLE ... DROP BRANCH or DROP TAG; metadata tables go with their table",
            ) from None
        return True

    @connector_method
    def rename_table(self, asked: Asked) -> None:
        new = tuple(asked["to"])
        if len(new) > 2 and new[0] == self.name and not self._catalog.namespace_exists(new[:-1]):
            new = new[1:]  # Spark takes the first part for a namespace, where it may be this catalog
        elif len(new) == 1:
            new = (*asked["table"][:-1], *new)
        self._catalog.rename_table(tuple(asked["table"]), new)

    @connector_method
    def default_namespace(self, _: Asked) -> list[str]:
        """Return the namespace that USE of this catalog chooses."""
        return list(self._catalog.default_namespace)

    @connector_method
    def list_namespaces(self, asked: Asked) -> list[list[str]]:
        return [list(name) for name in self._catalog.list_namespaces(tuple(asked["namespace"]))]

    @connector_method
    def namespace_exists(self, asked: Asked) -> bool:
        return not asked["namespace"] or self._catalog.namespace_exists(tuple(asked["namespace"]))

    @connector_method
    def load_namespace(self, asked: Asked) -> dict[str, str]:
        return dict(self._catalog.load_namespace_properties(tuple(asked["namespace"])))

    @connector_method
    def create_namespace(self, asked: Asked) -> None:
        given = asked["properties"]
        # Spark names the user on its own account, and folders have no properties.
        is_plain = given.keys() == {_OWNER} and not self.keeps_namespace_properties(asked)
        self._catalog.create_namespace(tuple(asked["namespace"]), {} if is_plain else given)

    @connector_method
    def keeps_namespace_properties(self, _: Asked) -> bool:
        """Whether namespaces have properties; folders have none."""
        return not isinstance(self._catalog, FileSystemCatalog)

    @connector_method
    def alter_namespace(self, asked: Asked) -> None:
        updates, removals = {}, set()
        for change in asked["changes"]:
            if change["is"] == "SetProperty":
                updates[change["property"]] = change["value"]
            elif change["is"] == "RemoveProperty":
                removals.add(change["property"])
            else:
                raise UnsupportedFeatureError(f"namespaces have no change of the kind {change['is']}")
        self._catalog.update_namespace_properties(tuple(asked["namespace"]), removals, updates)

    @connector_method
    def drop_namespace(self, asked: Asked) -> bool:
        name = tuple(asked["namespace"])
        try:
            if asked["cascade"]:
                self._empty(name)
            self._catalog.drop_namespace(name)
        except NoSuchNamespaceError:
            return False
        return True

    def _empty(self, name: tuple[str, ...]) -> None:
        """Drops the tables and views of a namespace; nothing of it where namespaces lie below, which is no single namespace's loss."""
        below = self._catalog.list_namespaces(name)
        if below:
            raise InvalidInputError(
                f"namespace {'.'.join(name)} has namespaces below it: {', '.join('.'.join(one) for one in below)}",
                next_step="drop those first: CASCADE drops the tables and views of one namespace",
            )
        for view in self._catalog.list_views(name) if self._catalog.keeps_views else ():
            with suppress(NoSuchViewError):  # someone else was faster
                self._catalog.drop_view(view)
        for table in self._catalog.list_tables(name):
            with suppress(NoSuchTableError):
                self._catalog.drop_table(table)

    @connector_method
    def load_function(self, asked: Asked) -> SparkFunction | None:
        *namespace, name = asked["function"]
        return SparkFunction(self._spark, name.lower()) if is_for_functions(namespace) and name.lower() in FUNCTIONS else None

    @connector_method
    def list_functions(self, asked: Asked) -> list[list[str]]:
        namespace = asked["namespace"]
        if is_for_functions(namespace):
            return [[*namespace, name] for name in sorted(FUNCTIONS)]
        if not self._catalog.namespace_exists(tuple(namespace)):
            raise NoSuchNamespaceError(f"there is no namespace {'.'.join(namespace)}", next_step="see SHOW NAMESPACES")
        return []

    @connector_method
    def load_procedure(self, asked: Asked) -> SparkProcedure:
        *namespace, name = asked["procedure"]
        found = None
        if [part.lower() for part in namespace] == [SYSTEM]:
            found = session_procedures(self._spark).get(name.lower()) or procedures_by_name().get(name.lower())
        if found is None:
            full_name = ".".join([self.name, *asked["procedure"]])
            raise AnalysisError(
                f"The routine {full_name} cannot be found.",
                condition="ROUTINE_NOT_FOUND",
                parameters={"routineName": full_name},
                next_step=f"there are, in {self.name}.{SYSTEM}: {', '.join(self._procedure_names())}",
            )
        return SparkProcedure(self._spark, self.name, self._catalog, found)

    @connector_method
    def list_procedures(self, asked: Asked) -> list[list[str]]:
        namespace = asked["namespace"]
        return [[*namespace, name] for name in self._procedure_names()] if [part.lower() for part in namespace] == [SYSTEM] else []

    def _procedure_names(self) -> list[str]:
        return sorted([*procedures_by_name(), *session_procedures(self._spark)])
