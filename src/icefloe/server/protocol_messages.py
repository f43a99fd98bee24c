"""Messages of errors in the words of Java's catalogs, which users and clients recognise, and the names in a request that such messages contain.

A message about a missing or existing object contains only names of the request. The hints of Icefloe's own errors list other objects, which the user may not be
allowed to know. JAVA: CatalogTests, ViewCatalogTests, UpdateRequirement.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.errors import (
    AlreadyExistsError,
    IcefloeError,
    NamespaceAlreadyExistsError,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    NotFoundError,
    StorageError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from icefloe.server.request import Call, identifier_of, namespace_of
from icefloe.server.rest_operations import RestOperation
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.requirement import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    Requirement,
)
from icefloe.spec.metadata.table_metadata import TableMetadata

_RENAMES = frozenset({"renameTable", "renameView"})
_OF_VIEWS = frozenset({"createView", "registerView", "replaceView", "renameView"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The names that an operation is about: of a table, a view or a namespace, and the new name of a rename."""

    name: Identifier | None = None
    namespace: Identifier = ()
    target: Identifier | None = None


def message_of(error: IcefloeError, operation: RestOperation, call: Call) -> str:
    """Return the message of an error for the client.

    Args:
        error: The error that the operation raised.
        operation: The operation.
        call: The request.
    """
    subject = _subject(operation, call)
    match error:
        case NoSuchNamespaceError():
            namespace = subject.target[:-1] if subject.target else subject.namespace
            return f"Namespace does not exist: {dotted(namespace)}" if namespace else error.message
        case NoSuchTableError() if subject.name:
            return f"Table does not exist: {dotted(subject.name)}"
        case NoSuchViewError() if subject.name:
            return f"View does not exist: {dotted(subject.name)}"
        case NamespaceAlreadyExistsError():
            return f"Namespace already exists: {dotted(subject.namespace)}"
        case TableAlreadyExistsError() | ViewAlreadyExistsError() if subject.name:
            return _name_in_use_message(error, operation, subject)
        case NoSuchFileError() if error.path:
            return f"Failed to open input stream for file: {error.path}: it does not exist"
        case NotFoundError() | AlreadyExistsError() | StorageError():
            return error.message
    return str(error)


def requirement_message(requirement: Requirement, table: TableMetadata | None) -> str:
    """Return the message about a requirement that a table does not meet."""
    if table is None:
        return "Requirement failed: the table does not exist"
    match requirement:
        case AssertCreate():
            message = "table already exists"
        case AssertTableUUID(uuid):
            message = f"UUID does not match: expected {table.table_uuid} != {uuid}"
        case AssertRefSnapshotId(name, snapshot_id):
            message = _ref_message(table, name, snapshot_id)
        case AssertLastAssignedFieldId(expected):
            message = f"last assigned field id changed: expected id {expected} != {table.last_column_id}"
        case AssertCurrentSchemaId(expected):
            message = f"current schema changed: expected id {expected} != {table.current_schema_id}"
        case AssertLastAssignedPartitionId(expected):
            message = f"last assigned partition id changed: expected id {expected} != {table.last_partition_id}"
        case AssertDefaultSpecId(expected):
            message = f"default partition spec changed: expected id {expected} != {table.default_spec_id}"
        case AssertDefaultSortOrderId(expected):
            message = f"default sort order changed: expected id {expected} != {table.default_sort_order_id}"
    return f"Requirement failed: {message}"


def _ref_message(table: TableMetadata, name: str, snapshot_id: int | None) -> str:
    ref = table.refs.get(name)
    if ref is None:
        return f"branch or tag {name} is missing, expected {snapshot_id}"
    if snapshot_id is None:
        return f"{ref.type} {name} was created concurrently"
    return f"{ref.type} {name} has changed: expected id {snapshot_id} != {ref.snapshot_id}"


def _name_in_use_message(error: AlreadyExistsError, operation: RestOperation, subject: Subject) -> str:
    """Return the message about a name that a table or view already has."""
    is_table = isinstance(error, TableAlreadyExistsError)
    noun = "Table" if is_table else "View"
    assert subject.name is not None  # noqa: S101  the caller has checked it
    if operation.name in _RENAMES and subject.target:
        return f"Cannot rename {dotted(subject.name)} to {dotted(subject.target)}. {noun} already exists"
    with_same_name = "" if is_table is (operation.name not in _OF_VIEWS) else " with same name"
    return f"{noun}{with_same_name} already exists: {dotted(subject.name)}"


def _subject(operation: RestOperation, call: Call) -> Subject:
    content: Mapping[str, Any] = call.content if isinstance(call.content, dict) else {}
    if operation.name in _RENAMES:
        source = identifier_of(content.get("source"), "$.source")
        return Subject(name=source, namespace=source[:-1], target=identifier_of(content.get("destination"), "$.destination"))
    if operation.name == "createNamespace":
        return Subject(namespace=tuple(map(str, content.get("namespace") or ())))
    if operation.name == "listNamespaces":
        return Subject(namespace=namespace_of(call.query["parent"]) if call.query.get("parent") else ())
    if "namespace" not in call.path:
        return Subject()
    namespace = call.namespace()
    if "table" in call.path:
        return Subject(name=call.table(), namespace=namespace)
    if "view" in call.path:
        return Subject(name=call.view(), namespace=namespace)
    name = content.get("name")
    return Subject(name=(*namespace, name) if isinstance(name, str) else None, namespace=namespace)
