"""Commits of tables as clients request them: updates with requirements, of one table or of several together.

Only this module applies the updates of requests. A requirement that is not met is a conflict, which the client may retry. If the commit loses a race against
another writer, the requirements are checked again on the newer table, and the updates are applied to it. Spec: REST catalog, updateTable, commitTransaction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icefloe.catalog.catalog import Catalog
from icefloe.commit.attempt import Attempt, Read
from icefloe.errors import CommitConflictError, FormatError, NoSuchTableError, Problem, UnsupportedFeatureError
from icefloe.operations.commit_loop import TableChange, commit_together
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.operations.table_handle import RandomIds, SystemClock
from icefloe.server.error_response import bad_request
from icefloe.server.protocol_messages import requirement_message
from icefloe.server.request import checked_object
from icefloe.server.served_locations import ServedLocations
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.created_table import created_table
from icefloe.spec.metadata.layout_updates import AddSchema
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.requirement import REFRESH, AssertCreate, Requirement, requirement_from_json
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, has_stale_sequence_number
from icefloe.spec.metadata.table_metadata import ROW_LINEAGE_VERSION, TableMetadata
from icefloe.spec.metadata.update_json import update_from_json
from icefloe.spec.schema.json_shape import Key, an_array
from icefloe.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCommit:
    """The commit of one table, as a client requests it."""

    identifier: Identifier
    requirements: tuple[Requirement, ...]
    updates: tuple[Update, ...]

    @property
    def creates(self) -> bool:
        """Whether the commit creates the table."""
        return any(isinstance(requirement, AssertCreate) for requirement in self.requirements)


class _RequestedChange:
    """The commit action for the updates and requirements of a client. The files that the updates name belong to the client."""

    def __init__(self, requested: RequestedCommit) -> None:
        self._requested = requested

    def new_data_files(self) -> Sequence[str]:
        """Return no files, because clients delete the files that they wrote themselves."""
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:  # noqa: ARG002
        """Apply the updates to the current metadata, as `Action.attempt` requires.

        Raises:
            CommitConflictError: A requirement is not met, or a snapshot was made for an older version of the table.
        """
        requested = self._requested
        _check(requested.requirements, base)
        for update in requested.updates:
            if isinstance(update, AddSnapshot):
                _check_not_stale(update, base)
        updates = tuple(_with_last_column_id(update, base) for update in requested.updates)
        return Attempt(updates=updates, requirements=requested.requirements) if updates else None


def requested_commit(identifier: Identifier, body: Any, where: str = "$") -> RequestedCommit:
    """Parse the body of a commit. Spec: REST catalog, CommitTableRequest.

    Args:
        identifier: The name of the table.
        body: The JSON of the body, or of a part of it.
        where: The JSON path of the part, for errors.

    Raises:
        RefusedRequest: The body has a wrong form, an unknown update or requirement, or other requirements beside `assert-create`.
    """
    content = checked_object(body, where, Key("requirements", an_array), Key("updates", an_array))
    requirements, updates = parsed_commit(content, where)
    creates = any(isinstance(requirement, AssertCreate) for requirement in requirements)
    if creates and len(requirements) > 1:
        raise bad_request("a table that must not exist has nothing that other requirements could be about: send assert-create alone")
    return RequestedCommit(identifier=identifier, requirements=requirements, updates=updates)


def parsed_commit(content: Mapping[str, Any], where: str) -> tuple[tuple[Requirement, ...], tuple[Update, ...]]:
    """Return the requirements and updates of a body.

    Args:
        content: The JSON of the body, or of a part of it.
        where: The JSON path of the part, for errors.

    Raises:
        RefusedRequest: The body has a wrong form, or an unknown update or requirement.
    """
    try:
        requirements = [requirement_from_json(value, f"{where}.requirements[{at}]") for at, value in enumerate(content["requirements"])]
        updates = [update_from_json(value, f"{where}.updates[{at}]") for at, value in enumerate(content["updates"])]
    except (FormatError, UnsupportedFeatureError) as error:
        raise bad_request(str(error)) from error
    return tuple(requirements), tuple(updates)


def commit_requested(
    catalog: Catalog, locations: Callable[[Identifier], ServedLocations], commits: Sequence[RequestedCommit]
) -> list[LoadedMetadata]:
    """Commit to one table or to several tables, all or none.

    Args:
        catalog: The catalog.
        locations: Returns the locations that the client may name for tables of a namespace.
        commits: The commit of each table.

    Returns:
        The committed tables, in order.

    Raises:
        NoSuchTableError: A table does not exist.
        CommitConflictError: A requirement is not met, or other writers committed first in every retry. Nothing was changed.
        CommitUnknownError: The commit state is unknown.
        LocationNotAllowedError: An update names a file or folder outside of the warehouse.
        InvalidInputError: An update cannot be applied.
    """
    existing = [requested.identifier for requested in commits if not requested.creates]
    tables = dict(zip(existing, catalog.load_tables(*existing) if len(existing) > 1 else map(catalog.load_table, existing), strict=True))
    changes = [_change(catalog, locations(requested.identifier[:-1]), requested, tables.get(requested.identifier)) for requested in commits]
    return [report.loaded for report in commit_together(changes)]


def _change(catalog: Catalog, locations: ServedLocations, requested: RequestedCommit, table: Table | None) -> TableChange:
    locations.check_updates(requested.updates, dotted(requested.identifier), table)
    if table is not None:
        base = LoadedMetadata(location=table.metadata_location, metadata=table.metadata)
        return TableChange(handle=table.handle, base=base, action=_RequestedChange(requested))
    _check(requested.requirements, _existing(catalog, requested.identifier))
    metadata = created_table(requested.updates, table_uuid=RandomIds().uuid(), now_ms=SystemClock().now_ms())
    handle = catalog.new_handle(requested.identifier, metadata.location)
    return TableChange(handle=handle, base=LoadedMetadata(location="", metadata=metadata), action=None, is_new=True)


def _check(requirements: Sequence[Requirement], table: TableMetadata | None) -> None:
    """Check the requirements of a request.

    Raises:
        CommitConflictError: A requirement is not met. The message is in the words of Java's catalogs.
    """
    for requirement in requirements:
        try:
            requirement.check(table)
        except CommitConflictError as error:
            message = requirement_message(requirement, table)
            raise CommitConflictError(message, snapshot_id=error.snapshot_id, problems=error.problems, next_step=error.next_step) from error


def _with_last_column_id(update: Update, base: TableMetadata) -> Update:
    """Correct an update whose last column id is too low: older clients send the highest id of their schema, from which a column was dropped."""
    if isinstance(update, AddSchema) and update.last_column_id is not None and update.last_column_id < base.last_column_id:
        return replace(update, last_column_id=None)
    return update


def _existing(catalog: Catalog, identifier: Identifier) -> TableMetadata | None:
    try:
        return catalog.load_table(identifier).metadata
    except NoSuchTableError:
        return None


def _check_not_stale(update: AddSnapshot, base: TableMetadata) -> None:
    """Refuse a snapshot whose sequence number or first row id a commit to another branch has taken. JAVA: RetryableValidationException.

    Raises:
        CommitConflictError: The number is taken; the client makes a new snapshot.
    """
    snapshot = update.snapshot
    first_row_id = snapshot.first_row_id
    is_stale = has_stale_sequence_number(base, snapshot)
    has_stale_rows = base.format_version >= ROW_LINEAGE_VERSION and first_row_id is not None and first_row_id < base.next_row_id
    if is_stale or has_stale_rows:
        raise CommitConflictError(
            f"snapshot {snapshot.snapshot_id} was made for an older version of the table: its sequence number {snapshot.sequence_number} or its row ids "
            f"are given already (last sequence number {base.last_sequence_number}, next row id {base.next_row_id})",
            snapshot_id=snapshot.snapshot_id,
            problems=(
                Problem(
                    where="expected",
                    what=f"a sequence number above {base.last_sequence_number}, and a first row id from {base.next_row_id} on",
                ),
                Problem(where="found", what=f"sequence number {snapshot.sequence_number}, first row id {first_row_id}"),
            ),
            next_step=REFRESH,
        )
