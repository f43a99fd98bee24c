"""`GlueCatalogStore`: names in the AWS Glue Data Catalog, shared with Java's GlueCatalog, PyIceberg, Athena and EMR.

A table of Glue has the metadata location among its parameters. A commit reads the table, compares the location, and updates the table on the condition that its
version is still the one that was read, so that of several writers one wins. Columns in Glue follow the schema, for consoles that show them; nothing reads
them back. Errors of Glue and Lake Formation are passed on with their text. Spec: Metastore Tables.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from icefloe.catalog_store.catalog_store import CommitRequest, TableLocation
from icefloe.catalog_store.hive_columns import hive_type
from icefloe.catalog_store.identifier import Identifier, dotted
from icefloe.errors import (
    CommitUnknownError,
    IcefloeError,
    InvalidIdentifierError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    StorageError,
    StoragePermissionError,
    StorageUnavailableError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome, Refused, Unknown
from icefloe.kernel.metadata.layout_updates import AddSchema, SetCurrentSchema
from icefloe.kernel.metadata.metadata_reader import read_table_metadata
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.storage_errors import cause_without_secrets, without_secrets
from icefloe.optional_packages import optional_module

ICEBERG, TABLE_TYPE, LOCATION, PREVIOUS_LOCATION = "ICEBERG", "table_type", "metadata_location", "previous_metadata_location"
# Properties of a namespace that Glue has fields for.
_NAMESPACE_LOCATION, _NAMESPACE_COMMENT = "location", "comment"
# Fields of a table that an update may send; Glue returns more of them.
_TABLE_INPUT = (
    "Name",
    "Description",
    "Owner",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "ViewOriginalText",
    "ViewExpandedText",
    "TableType",
    "Parameters",
)
# Property -> argument of boto3's session or client; of the names for one argument the first that is set counts.
_SESSION_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "profile_name": ("glue.profile-name", "client.profile-name"),
    "region_name": ("glue.region", "client.region"),
    "aws_access_key_id": ("glue.access-key-id", "client.access-key-id"),
    "aws_secret_access_key": ("glue.secret-access-key", "client.secret-access-key"),
    "aws_session_token": ("glue.session-token", "client.session-token"),
}
SECRETS = (
    "glue.access-key-id",
    "glue.secret-access-key",
    "glue.session-token",
    "client.access-key-id",
    "client.secret-access-key",
    "client.session-token",
)
ENDPOINT, CATALOG_ID, SKIP_ARCHIVE, MAX_RETRIES = "glue.endpoint", "glue.id", "glue.skip-archive", "glue.max-retries"
# After these responses a request was not carried out; after any other failure, such as a lost connection, it may have been.
_DENIED = frozenset(
    {"AccessDeniedException", "AccessDenied", "UnrecognizedClientException", "ExpiredTokenException", "InvalidSignatureException"}
)
_REFUSED = frozenset(
    {
        "InvalidInputException",
        "ValidationException",
        "ResourceNumberLimitExceededException",
        "GlueEncryptionException",
        "EntityNotFoundException",
    }
)
_UPPER = re.compile(r"[A-Z]")


class GlueCatalogStore:
    """The databases and tables of one Glue catalog. It holds only settings, so that it can be pickled; each process connects for itself.

    Args of the constructor: `properties` are those of the catalog; `io` reads metadata files, for the columns that Glue shows.
    """

    drops_files = False
    writes_metadata = False

    def __init__(self, name: str, properties: Mapping[str, str], io: FileIO) -> None:
        self.name = name
        self._properties = {key: text for key, text in properties.items() if key.startswith(("glue.", "client."))}
        self._io = io

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """See `CatalogStore.list_namespaces`. Glue's databases do not nest."""
        if parent:
            self._database(parent)
            return []
        return sorted((database["Name"],) for database in self._pages("get_databases", "DatabaseList"))

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """See `CatalogStore.namespace_properties`."""
        database = self._database(namespace)
        properties = {str(key): str(text) for key, text in (database.get("Parameters") or {}).items()}
        for key, field in ((_NAMESPACE_LOCATION, "LocationUri"), (_NAMESPACE_COMMENT, "Description")):
            if database.get(field):
                properties[key] = str(database[field])
        return properties

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """See `CatalogStore.create_namespace`. Raises `UnsupportedFeatureError` for a name of several levels."""
        name = _database_name(namespace)
        try:
            self._call("create_database", DatabaseInput=_database_input(name, properties))
        except _GlueError as error:
            if error.code == "AlreadyExistsException":
                raise NamespaceAlreadyExistsError(f"namespace {name!r} already exists in catalog {self.name!r}") from error
            raise self._translated(error, f"namespace {name!r} was not created") from error

    def drop_namespace(self, namespace: Identifier) -> None:
        """See `CatalogStore.drop_namespace`. Tables of other formats are in a namespace too."""
        self._database(namespace)
        tables = [table["Name"] for table in self._pages("get_tables", "TableList", DatabaseName=namespace[0])]
        if tables:
            raise NamespaceNotEmptyError(
                f"namespace {dotted(namespace)!r} is not empty: it holds {', '.join(sorted(tables)[:5])}", next_step="drop these first"
            )
        self._done("delete_database", f"namespace {dotted(namespace)!r} was not dropped", Name=namespace[0])

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        """See `CatalogStore.update_namespace`."""
        properties = {key: text for key, text in self.namespace_properties(namespace).items() if key not in removals}
        database = _database_input(namespace[0], {**properties, **updates})
        self._done("update_database", f"namespace {dotted(namespace)!r} was not changed", Name=namespace[0], DatabaseInput=database)

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """See `CatalogStore.list_tables`. Tables of other formats are left out."""
        self._database(namespace)
        tables = self._pages("get_tables", "TableList", DatabaseName=namespace[0])
        return sorted((*namespace, table["Name"]) for table in tables if _is_iceberg(table))

    def load(self, identifier: Identifier) -> TableLocation:
        """See `CatalogStore.load`. Raises `NoSuchTableError` also for a table of another format."""
        table = self._table(identifier)
        return TableLocation(
            identifier=identifier,
            metadata_location=_location(table),
            previous_metadata_location=_parameters(table).get(PREVIOUS_LOCATION),
            lookup=lambda: f"GetTable of AWS Glue, database {identifier[0]}, table {identifier[-1]}",
        )

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """Load one table after another: Glue shows no several tables at one moment."""
        return [self.load(identifier) for identifier in identifiers]

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:  # noqa: ARG002  it may be anywhere
        """Check that Glue has the namespace and can have the name. Raises `NoSuchNamespaceError`, `InvalidIdentifierError`."""
        _refuse_upper_case(identifier)
        self._database(identifier[:-1])

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """See `CatalogStore.create`."""
        _refuse_upper_case(identifier)
        self._database(identifier[:-1])
        table = {
            "Name": identifier[-1],
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {"EXTERNAL": "TRUE", TABLE_TYPE: ICEBERG, LOCATION: metadata_location},
            **self._descriptor({}, metadata_location),
        }
        try:
            self._call("create_table", DatabaseName=identifier[0], TableInput=table)
        except _GlueError as error:
            if error.code == "AlreadyExistsException":
                if error.was_repeated and self._has_location(identifier, metadata_location):  # the reply to the first request was lost
                    return metadata_location
                raise TableAlreadyExistsError(
                    f"table {dotted(identifier)!r} already exists in catalog {self.name!r}",
                    next_step="load it, drop it, or choose another name",
                ) from error
            if error.is_answer:
                raise self._translated(error, f"table {dotted(identifier)!r} was not created") from error
            raise CommitUnknownError(
                f"table {dotted(identifier)!r} may have been created in catalog {self.name!r}: {error}",
                table=dotted(identifier),
                path=metadata_location,
                next_step="look whether the table exists before you create it again; no file was deleted",
            ) from error
        return metadata_location

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        """See `CatalogStore.commit`. Raises `UnsupportedFeatureError` for more than one table."""
        if len(requests) != 1:
            raise UnsupportedFeatureError(
                f"catalog {self.name!r} is in AWS Glue, which cannot commit several tables at once",
                next_step="use a SQL catalog, or commit one table after another",
            )
        request = requests[0]
        if request.expected is None:
            try:
                self.create(request.identifier, request.new)
            except CommitUnknownError as error:
                return Unknown(reason=error.message)
            except IcefloeError as error:
                return Refused(error=error)
            return Committed()
        return self._swap(request)

    def _swap(self, request: CommitRequest) -> Outcome:
        """Change the location on the condition that the table's version is the one whose location was compared."""
        try:
            table = self._table(request.identifier)
        except NoSuchTableError:
            return Conflicted(current_location=None, reason="the table was dropped")
        except IcefloeError as error:
            return Refused(error=error)
        if (current := _location(table)) != request.expected:
            return Conflicted(current_location=current)
        parameters = {**_parameters(table), TABLE_TYPE: ICEBERG, LOCATION: request.new, PREVIOUS_LOCATION: request.expected}
        changed = {**{field: table[field] for field in _TABLE_INPUT if field in table}, "Parameters": parameters}
        if any(isinstance(update, AddSchema | SetCurrentSchema) for update in request.updates):
            changed.update(self._descriptor(table, request.new))
        version = {"VersionId": str(table["VersionId"])} if table.get("VersionId") is not None else {}
        skips_archive = self._properties.get(SKIP_ARCHIVE, "true").strip().lower() != "false"
        try:
            self._call("update_table", DatabaseName=request.identifier[0], TableInput=changed, SkipArchive=skips_archive, **version)
        except _GlueError as error:
            return self._outcome(request, error)
        return Committed()

    def _outcome(self, request: CommitRequest, error: "_GlueError") -> Outcome:
        if error.code == "ConcurrentModificationException":
            # It may have been this request's own: boto3 sends a request again whose reply was lost.
            return self.commit_status([request])
        if error.code == "EntityNotFoundException":
            return Conflicted(current_location=None, reason="the table was dropped")
        if error.is_answer:
            return Refused(error=self._translated(error, f"Glue refused the commit to {dotted(request.identifier)}"))
        return Unknown(reason=str(error))

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """See `CatalogStore.commit_status`. Where nothing has changed the request is sent again: it cannot be carried out twice."""
        request = requests[0]
        try:
            table = self._table(request.identifier)
        except NoSuchTableError:
            return self.commit(requests) if request.expected is None else Conflicted(current_location=None, is_reply_lost=True)
        except IcefloeError as error:
            return Unknown(reason=error.message)
        current = _location(table)
        if current == request.new:
            return Committed()
        return self._swap(request) if current == request.expected else Conflicted(current_location=current, is_reply_lost=True)

    def rename(self, source: Identifier, target: Identifier) -> None:
        """See `CatalogStore.rename`. Glue has no rename: the new name is created and the old one deleted; if that fails, the new one is deleted again."""
        _refuse_upper_case(target)
        table = self._table(source)
        self._database(target[:-1])
        renamed = {**{field: table[field] for field in _TABLE_INPUT if field in table}, "Name": target[-1]}
        try:
            self._call("create_table", DatabaseName=target[0], TableInput=renamed)
        except _GlueError as error:
            if error.code == "AlreadyExistsException":
                raise TableAlreadyExistsError(
                    f"table {dotted(target)!r} already exists in catalog {self.name!r}", next_step="choose another name"
                ) from error
            raise self._translated(error, f"table {dotted(source)!r} was not renamed") from error
        try:
            if _location(self._table(source)) != _location(table):
                raise StorageUnavailableError(
                    f"table {dotted(source)!r} was not renamed: another writer committed to it", table=dotted(source), next_step="try again"
                )
            self._done("delete_table", f"table {dotted(source)!r} was not renamed", DatabaseName=source[0], Name=source[-1])
        except IcefloeError:
            self._done("delete_table", f"table {dotted(target)!r} was not deleted again", DatabaseName=target[0], Name=target[-1])
            raise

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """See `CatalogStore.drop`. The location is compared just before, as Glue deletes without a condition."""
        if _location(self._table(identifier)) != expected is not None:
            return False
        try:
            self._call("delete_table", DatabaseName=identifier[0], Name=identifier[-1])
        except _GlueError as error:
            if error.code == "EntityNotFoundException":
                raise self._missing(identifier) from error
            raise self._translated(error, f"table {dotted(identifier)!r} was not dropped") from error
        return True

    def _descriptor(self, table: Mapping[str, Any], metadata_location: str) -> dict[str, Any]:
        """Return the fields of a table that follow its metadata: the columns, the folder and the comment."""
        metadata = read_table_metadata(self._io.read(metadata_location), metadata_location)
        descriptor = {**(table.get("StorageDescriptor") or {}), "Location": metadata.location, "Columns": _columns(metadata.schema())}
        comment = metadata.properties.get("comment")
        return {"StorageDescriptor": descriptor, **({"Description": comment[:2048]} if comment else {})}

    def _database(self, namespace: Identifier) -> Mapping[str, Any]:
        """Return Glue's description of a database. Raises `NoSuchNamespaceError`."""
        missing = NoSuchNamespaceError(
            f"namespace {dotted(namespace)!r} does not exist in catalog {self.name!r}",
            next_step=f"create it with create_namespace({dotted(namespace)!r})",
        )
        if len(namespace) != 1:
            raise missing
        try:
            database: Mapping[str, Any] = self._call("get_database", Name=namespace[0])["Database"]
        except _GlueError as error:
            if error.code == "EntityNotFoundException":
                raise missing from error
            raise self._translated(error, f"namespace {dotted(namespace)!r} could not be loaded") from error
        if database["Name"] != namespace[0]:  # Glue ignores upper and lower case
            raise missing
        return database

    def _table(self, identifier: Identifier) -> Mapping[str, Any]:
        """Return Glue's description of an Iceberg table. Raises `NoSuchTableError`."""
        if len(identifier) != 2:
            raise self._missing(identifier)
        try:
            table: Mapping[str, Any] = self._call("get_table", DatabaseName=identifier[0], Name=identifier[1])["Table"]
        except _GlueError as error:
            if error.code == "EntityNotFoundException":
                raise self._missing(identifier) from error
            raise self._translated(error, f"table {dotted(identifier)!r} could not be loaded") from error
        if table["Name"] != identifier[1]:
            raise self._missing(identifier)
        if not _is_iceberg(table) or not _location(table):
            raise NoSuchTableError(
                f"{dotted(identifier)!r} is a table of catalog {self.name!r}, and no Iceberg table",
                next_step="read it with Spark's own Hive support",
            )
        return table

    def _has_location(self, identifier: Identifier, location: str) -> bool:
        try:
            return _location(self._table(identifier)) == location
        except IcefloeError:
            return False

    def _missing(self, identifier: Identifier) -> NoSuchTableError:
        try:
            known = ", ".join(map(dotted, self.list_tables(identifier[:-1])[:10])) or "no Iceberg table"
            next_step = f"the namespace holds {known}"
        except IcefloeError as error:
            next_step = error.next_step or error.message
        return NoSuchTableError(f"table {dotted(identifier)!r} does not exist in catalog {self.name!r}", next_step=next_step)

    def _pages(self, operation: str, field: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
        token: dict[str, str] = {}
        while True:
            try:
                page = self._call(operation, **arguments, **token)
            except _GlueError as error:
                raise self._translated(error, f"catalog {self.name!r} could not be listed") from error
            yield from page[field]
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

    def _done(self, operation: str, failure: str, **arguments: Any) -> None:
        try:
            self._call(operation, **arguments)
        except _GlueError as error:
            raise self._translated(error, failure) from error

    def _call(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """Send a request. Raises `_GlueError`."""
        if CATALOG_ID in self._properties:
            arguments["CatalogId"] = self._properties[CATALOG_ID]
        client = _client(tuple(sorted(self._properties.items())))
        secrets = [self._properties[name] for name in SECRETS if self._properties.get(name)]
        request: Callable[..., Mapping[str, Any]] = getattr(client, operation)
        try:
            return request(**arguments)
        except client.exceptions.ClientError as error:
            answer = error.response.get("Error", {})
            details = error.response.get("ResponseMetadata", {})
            status, repeats = int(details.get("HTTPStatusCode") or 0), int(details.get("RetryAttempts") or 0)
            text = without_secrets(str(answer.get("Message") or error), secrets)
            raise _GlueError(str(answer.get("Code") or ""), text, status=status, was_repeated=repeats > 0) from cause_without_secrets(
                error, secrets
            )
        except Exception as error:  # noqa: BLE001  botocore has many classes for lost connections, time-outs and missing credentials
            raise _GlueError("", f"{type(error).__name__}: {without_secrets(str(error), secrets)}") from cause_without_secrets(
                error, secrets
            )

    def _translated(self, error: "_GlueError", failure: str) -> IcefloeError:
        if error.code in _DENIED:
            return StoragePermissionError(
                f"{failure}: AWS denied it: {error}",
                next_step="grant the right to this identity in IAM or Lake Formation, or use other credentials",
            )
        if error.code in _REFUSED:
            return InvalidInputError(f"{failure}: Glue refused it: {error}", next_step="correct what Glue names")
        if not error.code or error.status >= 500 or "Throttl" in error.code:
            return StorageUnavailableError(
                f"{failure}: {error}",
                next_step="check the network, the region and the credentials (glue.region, glue.endpoint), and try again",
            )
        return StorageError(f"{failure}: {error.code}: {error}", next_step="see the text of AWS")


class _GlueError(Exception):
    """A failed request: Glue's code, empty without a response; the status of the response; and whether boto3 had sent the request more than once."""

    def __init__(self, code: str, text: str, status: int = 0, *, was_repeated: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.status = status
        self.was_repeated = was_repeated

    @property
    def is_answer(self) -> bool:
        """Whether the response shows that Glue did not carry the request out."""
        return bool(self.code) and self.status < 500 and self.code not in ("OperationTimeoutException", "InternalServiceException")


@lru_cache(maxsize=32)
def _client(properties: tuple[tuple[str, str], ...]) -> Any:
    """Return boto3's client, one per process and set of properties. Raises `NotInstalledError`."""
    boto3 = optional_module("boto3", extra="glue", feature="a catalog in AWS Glue")
    config = optional_module("botocore.config", extra="glue", feature="a catalog in AWS Glue")
    values = dict(properties)
    options = {
        option: text
        for option, names in _SESSION_OPTIONS.items()
        if (text := next((values[name] for name in names if values.get(name)), None))
    }
    retries = {"mode": "standard", "max_attempts": int(values.get(MAX_RETRIES, "10"))}
    return boto3.session.Session(**options).client("glue", endpoint_url=values.get(ENDPOINT), config=config.Config(retries=retries))


def _is_iceberg(table: Mapping[str, Any]) -> bool:
    return str(_parameters(table).get(TABLE_TYPE, "")).upper() == ICEBERG


def _parameters(table: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(text) for key, text in (table.get("Parameters") or {}).items()}


def _location(table: Mapping[str, Any]) -> str:
    return _parameters(table).get(LOCATION, "")


def _database_name(namespace: Identifier) -> str:
    if len(namespace) != 1:
        raise UnsupportedFeatureError(
            f"namespace {dotted(namespace)!r} has {len(namespace)} levels, and databases of AWS Glue do not nest",
            next_step="use a name of one level",
        )
    _refuse_upper_case(namespace)
    return namespace[0]


def _refuse_upper_case(identifier: Identifier) -> None:
    for part in identifier:
        if part != part.lower():
            raise InvalidIdentifierError(
                f"{dotted(identifier)!r} cannot be a name in AWS Glue, which keeps names in lower case",
                next_step=f"write it as {part.lower()!r}",
            )


def _database_input(name: str, properties: Mapping[str, str]) -> dict[str, Any]:
    fields = {"LocationUri": properties.get(_NAMESPACE_LOCATION), "Description": properties.get(_NAMESPACE_COMMENT)}
    rest = {key: text for key, text in properties.items() if key not in (_NAMESPACE_LOCATION, _NAMESPACE_COMMENT)}
    return {"Name": name, **{field: text for field, text in fields.items() if text}, "Parameters": rest}


def _columns(schema: Schema) -> list[dict[str, Any]]:
    columns = []
    for field in schema.fields:
        parameters = {
            "iceberg.field.id": str(field.field_id),
            "iceberg.field.optional": str(not field.required).lower(),
            "iceberg.field.current": "true",
        }
        column = {"Name": field.name, "Type": hive_type(field.field_type), "Parameters": parameters}
        columns.append({**column, **({"Comment": field.doc[:255]} if field.doc else {})})
    return columns
