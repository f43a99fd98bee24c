"""`GlueCatalogStore`: a catalog store in the AWS Glue Data Catalog, shared with Java's GlueCatalog, PyIceberg, Athena and EMR.

A commit reads the table, compares the metadata location, and updates the table on the condition that its version has not changed, so that only one of several
writers wins. Glue has no conditional deletion, so that a drop takes two steps: a conditional update removes the metadata location, after which no commit
succeeds and no table of this name can be created; then the name is deleted. A rename creates the new name between these two steps, so that never both names can
be opened. Errors of Glue and Lake Formation are passed on with their text. Spec: Metastore Tables.
"""

from collections.abc import Mapping
from time import sleep
from typing import Any
from uuid import uuid4

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused, Unknown
from icefloe.errors import (
    CommitConflictError,
    CommitUnknownError,
    IcefloeError,
    InvalidIdentifierError,
    NoSuchTableError,
    Problem,
    StorageUnavailableError,
    UnfinishedDropError,
)
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.layout_updates import AddSchema, SetCurrentSchema
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import RemoveProperties, SetLocation, SetProperties
from icefloe.spec.ports import FileIO
from icefloe.spec.view.view_updates import ViewUpdate
from icefloe.stores import glue_objects
from icefloe.stores.catalog_store import CommitRequest, TableLocation
from icefloe.stores.glue_client import EXISTS, MISSING, MODIFIED, GlueClient, GlueError, glue_errors
from icefloe.stores.glue_objects import DROPPED_BY, RENAMED_TO, metadata_location_of, parameters_of
from icefloe.stores.metastore_store import PREVIOUS_LOCATION, MetastoreStore
from icefloe.stores.name_errors import namespace_exists, namespace_missing, namespace_not_empty, table_exists, table_missing

SKIP_ARCHIVE = "glue.skip-archive"
# The number of times that a drop reads the table again after another writer has changed it.
TRIES = 10
# The number of attempts of a deletion, and the seconds before the second attempt; each further wait is twice as long.
DELETIONS, FIRST_WAIT_S = 6, 0.1


class GlueCatalogStore(MetastoreStore):
    """A catalog store for the databases and tables of a Glue catalog. It holds only settings, so that it can be pickled.

    Args of the constructor: `properties` are the catalog properties; `io` reads metadata files to get the columns that Glue shows.
    """

    service = "AWS Glue"

    def __init__(self, name: str, properties: Mapping[str, str], io: FileIO) -> None:
        super().__init__(name, io)
        self._glue = GlueClient(properties)
        self._skips_archive = properties.get(SKIP_ARCHIVE, "true").strip().lower() != "false"

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """List the databases, which are the namespaces; they do not nest. See `CatalogStore.list_namespaces`."""
        if parent:
            self._database(parent)
            return []
        with glue_errors(f"catalog {self.name!r} could not be listed"):
            return sorted((database["Name"],) for database in self._glue.pages("get_databases", "DatabaseList"))

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        return glue_objects.namespace_properties(self._database(namespace))

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """Create a namespace. See `CatalogStore.create_namespace`.

        Raises:
            UnsupportedFeatureError: the name has several levels.
            InvalidIdentifierError: the name has upper-case letters.
        """
        if len(namespace) != 1:
            raise self._nesting_error(namespace)
        _refuse_upper_case(namespace)
        with glue_errors(f"namespace {dotted(namespace)!r} was not created"):
            try:
                self._glue.call("create_database", DatabaseInput=glue_objects.database_input(namespace[0], properties))
            except GlueError as error:
                if error.code == EXISTS:
                    raise namespace_exists(self.name, namespace) from error
                raise

    def drop_namespace(self, namespace: Identifier) -> None:
        """Drop a namespace. See `CatalogStore.drop_namespace`. Tables of other formats count as content of a namespace too."""
        self._database(namespace)
        with glue_errors(f"namespace {dotted(namespace)!r} was not dropped"):
            if tables := [table["Name"] for table in self._tables(namespace)]:
                raise namespace_not_empty(namespace, tables)
            self._glue.call("delete_database", Name=namespace[0])

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        properties = {key: text for key, text in self.namespace_properties(namespace).items() if key not in removals}
        database = glue_objects.database_input(namespace[0], {**properties, **updates})
        with glue_errors(f"namespace {dotted(namespace)!r} was not changed"):
            self._glue.call("update_database", Name=namespace[0], DatabaseInput=database)

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """List the Iceberg tables of a namespace. See `CatalogStore.list_tables`. Raises `InvalidIdentifierError` for a name that no database can have."""
        _refuse_upper_case(namespace)
        self._database(namespace)
        with glue_errors(f"catalog {self.name!r} could not be listed"):
            return sorted((*namespace, table["Name"]) for table in self._tables(namespace) if glue_objects.is_iceberg(table))

    def load(self, identifier: Identifier) -> TableLocation:
        """Load a table. See `CatalogStore.load`. Raises `NoSuchTableError` also for a table in another format."""
        table = self._table(identifier)
        return TableLocation(
            identifier=identifier,
            metadata_location=metadata_location_of(table),
            previous_metadata_location=parameters_of(table).get(PREVIOUS_LOCATION),
            lookup=lambda: f"GetTable of AWS Glue, database {identifier[0]}, table {identifier[-1]}",
        )

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:  # noqa: ARG002  it may be anywhere
        """Check that a table of this name could be created: its database exists, and the name has no upper-case letters, which Glue does not keep.

        Raises:
            NoSuchNamespaceError: Glue has no such database.
            InvalidIdentifierError: The name has upper-case letters.
        """
        _refuse_upper_case(identifier)
        self._database(identifier[:-1])

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        _refuse_upper_case(identifier)
        self._database(identifier[:-1])
        table = glue_objects.new_table(identifier[-1], metadata_location, self._metadata(metadata_location))
        self._create(identifier, table, f"table {dotted(identifier)!r} was not created")
        return metadata_location

    def _create(self, identifier: Identifier, table: Mapping[str, Any], failure: str) -> None:
        """Create the Glue table.

        Raises:
            TableAlreadyExistsError: another table has the name.
            CommitUnknownError: the table may have been created.
            IcefloeError: the table was not created.
        """
        try:
            self._glue.call("create_table", DatabaseName=identifier[0], TableInput=table)
        except GlueError as error:
            if error.code == EXISTS and error.is_denial:
                raise table_exists(self.name, identifier) from error
            if error.is_denial:
                raise error.as_icefloe_error(failure) from error
            is_created = self._has_table(identifier, metadata_location_of(table))
            if is_created is None:
                raise self._creation_unknown(identifier, metadata_location_of(table), error) from error
            if not is_created:
                raise table_exists(self.name, identifier) from error

    def _swap(self, request: CommitRequest) -> Outcome:
        """Change a table's metadata location, on the condition that the table still has the version whose location was compared."""
        try:
            table = self._table(request.identifier)
            if (current := metadata_location_of(table)) != request.expected:
                return Conflicted(current_location=current)
            changed = glue_objects.as_input(table, glue_objects.committed_parameters(table, request.new))
            if any(map(_removes_comment, request.updates)):
                changed.pop("Description", None)
            if any(map(_changes_shown_fields, request.updates)):
                changed.update(glue_objects.shown_fields(table, self._metadata(request.new)))
        except NoSuchTableError:
            return Conflicted(current_location=None, reason="the table was dropped")
        except IcefloeError as error:
            return Refused(error=error)
        try:
            self._update(request.identifier, table, changed)
        except GlueError as error:
            return self._outcome(request, error)
        return Committed()

    def _outcome(self, request: CommitRequest, error: GlueError) -> Outcome:
        if error.code == MODIFIED:
            # The other update may be this request's own: boto3 repeats a request if the reply was lost.
            return self.commit_status([request])
        if error.code == MISSING:
            # If the reply was lost, another process may have renamed the table meanwhile, with this commit in it.
            return Conflicted(current_location=None, reason="the table was dropped", is_reply_lost=error.was_repeated)
        if error.is_denial:
            return Refused(error=error.as_icefloe_error(f"Glue refused the commit to {dotted(request.identifier)}"))
        return Unknown(reason=str(error))

    def _update(self, identifier: Identifier, table: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Update a table on the condition that it still has the version of `table`. Raises `GlueError`."""
        version = {"VersionId": str(table["VersionId"])} if table.get("VersionId") is not None else {}
        self._glue.call("update_table", DatabaseName=identifier[0], TableInput=changed, SkipArchive=self._skips_archive, **version)

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Rename a table. See `CatalogStore.rename`. Glue has no rename: the drop of the old name begins, the new name is created, the old name is deleted.

        Raises:
            NoSuchTableError, NoSuchNamespaceError, TableAlreadyExistsError: nothing was changed.
            CommitUnknownError: the table may have either name, or no name; the error has its metadata location.
            UnfinishedDropError: the table has neither name, and its metadata location could not be restored under the old name.
            StorageUnavailableError: nothing was changed; or the table has its new name, but the old name may still be taken. The error states which.
        """
        _refuse_upper_case(target)
        table = self._table(source)
        self._database(target[:-1])
        if self._raw_table(target) is not None:
            raise table_exists(self.name, target)
        marked = glue_objects.dropped_parameters(table, uuid4().hex, renamed_to=dotted(target))
        failure = f"table {dotted(source)!r} was not renamed"
        if not self._begin_drop(source, table, marked, failure):
            raise StorageUnavailableError(
                f"{failure}: another writer changed it", table=dotted(source), path=metadata_location_of(table), next_step="try again"
            )
        self._create_renamed(source, target, table, marked)
        done = f"table {dotted(source)!r} has the name {dotted(target)!r} now, and its old name may still be taken"
        try:
            self._end_drop(source, marked)
        except GlueError as error:
            raise error.as_icefloe_error(done) from error
        except UnfinishedDropError as error:
            raise StorageUnavailableError(
                f"{done}: {error.__cause__}", table=dotted(source), path=error.path, next_step=f"drop_table({dotted(source)!r}) deletes it"
            ) from error

    def _create_renamed(self, source: Identifier, target: Identifier, table: Mapping[str, Any], marked: Mapping[str, str]) -> None:
        """Create the new name of a table whose old name cannot be opened any more; if that fails, restore the old name. Raises the errors of `rename`."""
        try:
            self._create(
                target,
                {**glue_objects.as_input(table), "Name": target[-1]},
                f"table {dotted(source)!r} was not renamed to {dotted(target)!r}",
            )
        except CommitUnknownError as error:
            raise self._rename_unknown(source, target, marked, error) from error
        except IcefloeError as error:
            if not self._restore(source, table, marked):
                raise self._rename_unknown(source, target, marked, error) from error
            raise

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """Drop a table. See `CatalogStore.drop`. Without `expected`, also finish a drop of this name that another process has not finished."""
        failure = f"table {dotted(identifier)!r} was not dropped"
        if expected is not None:
            # Another writer that is dropping or renaming the table may need its files.
            table = self._table(identifier)
            return metadata_location_of(table) == expected and self._drop_version(identifier, table, failure)
        for _ in range(TRIES):
            if self._drop_version(identifier, self._table_or_dropped(identifier), failure):
                return True
        raise CommitConflictError(
            f"{failure}: other writers changed it {TRIES} times meanwhile",
            table=dotted(identifier),
            problems=(
                Problem(where="expected", what="the version that was read"),
                Problem(where="found", what="another one each time"),
            ),
            next_step="stop its writers first; a retry makes sense when fewer of them commit",
        )

    def _drop_version(self, identifier: Identifier, table: Mapping[str, Any], failure: str) -> bool:
        """Drop a table if it still has the version that was read.

        Returns:
            False if another writer has changed it.

        Raises:
            NoSuchTableError: another writer has dropped the table.
            UnfinishedDropError: the table is dropped, but its name may still be taken.
            CommitUnknownError: the table may have been dropped.
            IcefloeError: the table was not dropped.
        """
        marked = glue_objects.dropped_parameters(table, uuid4().hex)
        if not self._begin_drop(identifier, table, marked, failure):
            return False
        try:
            self._end_drop(identifier, marked)
        except GlueError as error:
            if self._restore(identifier, table, marked):
                raise error.as_icefloe_error(failure) from error
        return True

    def _begin_drop(self, identifier: Identifier, table: Mapping[str, Any], marked: Mapping[str, str], failure: str) -> bool:
        """Remove the metadata location of a table if it still has the version that was read. Raises the errors of `_drop_version`."""
        try:
            self._update(identifier, table, glue_objects.as_input(table, marked))
        except GlueError as error:
            if error.is_denial and error.code == MISSING:
                raise self._missing(identifier) from error
            if error.is_denial and error.code != MODIFIED:
                raise error.as_icefloe_error(failure) from error
            return self._is_drop_begun(identifier, table, marked, error)
        return True

    def _is_drop_begun(self, identifier: Identifier, table: Mapping[str, Any], marked: Mapping[str, str], failure: GlueError) -> bool:
        """Return whether a failed update has begun a drop nevertheless; False if another writer came first. Raises `CommitUnknownError`."""
        unknown = CommitUnknownError(
            f"table {dotted(identifier)!r} may have been dropped from catalog {self.name!r}, or its drop begun: {failure}",
            table=dotted(identifier),
            path=marked.get(PREVIOUS_LOCATION),
            next_step=f"look whether load_table({dotted(identifier)!r}) opens it before you repeat it; where it does not, drop_table({dotted(identifier)!r})"
            " deletes what is left of the name, then register_table with this metadata file restores the table; no file was deleted",
        )
        try:
            current = self._raw_table(identifier)
        except IcefloeError as error:
            raise unknown from error
        if _is_marked(current, marked):  # the update succeeded, and only its reply was lost
            return True
        # Once there is a newer version, Glue refuses an update that is still in transit.
        if failure.is_denial or (current is not None and current.get("VersionId") != table.get("VersionId")):
            return False
        raise unknown from failure

    def _end_drop(self, identifier: Identifier, marked: Mapping[str, str]) -> None:
        """Delete a name if it still belongs to the drop that was begun: another process may have finished the drop, and created a new table of this name.

        Raises:
            UnfinishedDropError: the name may still be taken.
            GlueError: Glue denied the deletion.
        """
        failures: list[GlueError] = []
        for attempt in range(DELETIONS):
            if attempt:
                sleep(FIRST_WAIT_S * 2 ** (attempt - 1))
            try:
                if not _is_marked(self._raw_table(identifier), marked):
                    return
                self._glue.call_once("delete_table", DatabaseName=identifier[0], Name=identifier[-1])
            except IcefloeError as error:
                raise self._unfinished_drop_error(identifier, marked) from error
            except GlueError as error:
                if error.code == MISSING:
                    return
                failures.append(error)
                if error.is_denial and not error.is_throttled:
                    break
            else:
                return
        if all(failure.is_denial for failure in failures):
            raise failures[-1]
        raise self._unfinished_drop_error(identifier, marked) from failures[-1]

    def _restore(self, identifier: Identifier, table: Mapping[str, Any], marked: Mapping[str, str]) -> bool:
        """Restore the metadata location of a table whose drop was begun.

        Returns:
            False if another process has finished the drop.

        Raises:
            UnfinishedDropError: the location may not have been restored.
        """
        try:
            current = self._raw_table(identifier)
            if current is None or not _is_marked(current, marked):
                return False
            self._update(identifier, current, glue_objects.as_input(table))
        except (GlueError, IcefloeError) as error:
            if not self._has_table(identifier, metadata_location_of(table)):  # otherwise only the reply was lost
                raise self._unfinished_drop_error(identifier, marked) from error
        return True

    def _database(self, namespace: Identifier) -> Mapping[str, Any]:
        """Return the Glue database of a namespace. Raises `NoSuchNamespaceError`."""
        if len(namespace) != 1:
            raise namespace_missing(self.name, namespace)
        with glue_errors(f"namespace {dotted(namespace)!r} could not be loaded"):
            try:
                database: Mapping[str, Any] = self._glue.call("get_database", Name=namespace[0])["Database"]
            except GlueError as error:
                if error.code == MISSING:
                    raise namespace_missing(self.name, namespace) from error
                raise
        if database["Name"] != namespace[0]:  # Glue ignores the case of names
            raise namespace_missing(self.name, namespace)
        return database

    def _tables(self, namespace: Identifier) -> list[Mapping[str, Any]]:
        """Return all tables of a database, in every format. Raises `GlueError`."""
        return list(self._glue.pages("get_tables", "TableList", DatabaseName=namespace[0]))

    def _table(self, identifier: Identifier) -> Mapping[str, Any]:
        """Return the Glue table of an Iceberg table. Raises `NoSuchTableError`."""
        table = self._table_or_dropped(identifier)
        if DROPPED_BY in parameters_of(table):
            raise self._unfinished_drop_error(identifier, parameters_of(table))
        return table

    def _table_or_dropped(self, identifier: Identifier) -> Mapping[str, Any]:
        """Return an Iceberg table, or the entry of a table whose drop is not finished. Raises `NoSuchTableError`."""
        table = self._raw_table(identifier)
        if table is None:
            raise self._missing(identifier)
        if DROPPED_BY not in parameters_of(table) and not (glue_objects.is_iceberg(table) and metadata_location_of(table)):
            raise self._other_format(identifier)
        return table

    def _raw_table(self, identifier: Identifier) -> Mapping[str, Any] | None:
        """Return a table in any format; None if Glue has no table of exactly this name."""
        if len(identifier) != 2:
            return None
        with glue_errors(f"table {dotted(identifier)!r} could not be loaded"):
            try:
                table: Mapping[str, Any] = self._glue.call("get_table", DatabaseName=identifier[0], Name=identifier[1])["Table"]
            except GlueError as error:
                if error.code == MISSING:
                    return None
                raise
        return table if table["Name"] == identifier[1] else None

    def _has_table(self, identifier: Identifier, location: str) -> bool | None:
        """Return whether the table of this name has, or had before later commits, this metadata file; None if that is unknown."""
        try:
            current = metadata_location_of(self._table(identifier))
            uuids = () if current == location else (self._metadata(current).table_uuid, self._metadata(location).table_uuid)
        except IcefloeError:
            return None
        return None if None in uuids else len(set(uuids)) < 2

    def _metadata(self, location: str) -> TableMetadata:
        return read_table_metadata(self._io.read(location), location)

    def _missing(self, identifier: Identifier) -> NoSuchTableError:
        return table_missing(self.name, identifier, self.list_tables)

    def _unfinished_drop_error(self, identifier: Identifier, marked: Mapping[str, str]) -> UnfinishedDropError:
        name, target = dotted(identifier), marked.get(RENAMED_TO)
        if target is None:
            message = f"table {name!r} was dropped from catalog {self.name!r}, and its name was not deleted from Glue"
            restored = "and register_table with this metadata file restores the table then"
            step = f"where no other process is dropping it, drop_table({name!r}) deletes the name, {restored}"
        else:
            message = f"the rename of table {name!r} to {target!r} in catalog {self.name!r} has not ended"
            step = f"where no other process is renaming it: if load_table({target!r}) does not open this table, register_table with this metadata file opens it"
            step = f"{step} under a free name; then drop_table({name!r}) deletes the old name"
        return UnfinishedDropError(message, table=name, path=marked.get(PREVIOUS_LOCATION), next_step=step)

    def _rename_unknown(
        self, source: Identifier, target: Identifier, marked: Mapping[str, str], failure: IcefloeError
    ) -> CommitUnknownError:
        return CommitUnknownError(
            f"table {dotted(source)!r} may have been renamed to {dotted(target)!r} in catalog {self.name!r}: {failure.message}",
            table=dotted(source),
            path=marked.get(PREVIOUS_LOCATION),
            next_step=f"look which name opens before you repeat it; {self._unfinished_drop_error(source, marked).next_step}; no file was deleted",
        )


def _is_marked(table: Mapping[str, Any] | None, marked: Mapping[str, str]) -> bool:
    """Return whether a table is still the one whose drop was begun with these parameters."""
    return table is not None and parameters_of(table).get(DROPPED_BY) == marked[DROPPED_BY]


def _changes_shown_fields(update: Update | ViewUpdate) -> bool:
    """Return whether an update may change the fields that Glue shows of a table: columns, folder or comment."""
    return isinstance(update, AddSchema | SetCurrentSchema | SetLocation) or (
        isinstance(update, SetProperties) and glue_objects.COMMENT in update.updates
    )


def _removes_comment(update: Update | ViewUpdate) -> bool:
    """Return whether an update removes the comment. A description that was only set in a console is kept."""
    return isinstance(update, RemoveProperties) and glue_objects.COMMENT in update.removals


def _refuse_upper_case(identifier: Identifier) -> None:
    for part in identifier:
        if part != part.lower():
            raise InvalidIdentifierError(
                f"{dotted(identifier)!r} cannot be a name in AWS Glue, which keeps names in lower case",
                next_step=f"write it as {part.lower()!r}",
            )
