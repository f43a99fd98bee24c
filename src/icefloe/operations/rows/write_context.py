"""The context of a write: the folder and format of its new files, its branch or its staging, and the values that all attempts of its commit share.

Spec: Writing Data Files; Snapshots.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from icefloe.commit.attempt import CommitContext
from icefloe.commit.staged_snapshot import WAP_ID, check_wap_id_is_new
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.lazy_imports import lazy_module
from icefloe.operations.engine import Engine
from icefloe.operations.own_location import check_paths_for_writes
from icefloe.operations.parallel_requests import in_threads
from icefloe.operations.staging import staging_of_write
from icefloe.operations.table_handle import TableHandle, data_folder, metadata_folder
from icefloe.spec.metadata.encryption import refuse_encrypted, refuse_plain_files
from icefloe.spec.metadata.property_kinds import property_texts
from icefloe.spec.metadata.snapshot_manifests import spec_schema
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER
from icefloe.spec.schema.nesting import check_write_nesting
from icefloe.spec.schema.schema import Schema
from icefloe.version import __version__

if TYPE_CHECKING:
    from icefloe.operations import available_engines
else:  # reading and writing rows needs 90 modules, and opening a table none of them
    available_engines = lazy_module("icefloe.operations.available_engines")


def write_target(handle: TableHandle, metadata: TableMetadata) -> WriteTarget:
    """Return the target of a write: the folder and format of data files that an engine writes for the table.

    Raises:
        UnsupportedFeatureError: the table is encrypted.
        LocationNotAllowedError: a folder of new files is not allowed, see `check_paths_for_writes`.
        InvalidSchemaError: the table's columns are nested so deeply that written rows could not be read.
    """
    check_write_nesting(metadata.schema(), handle.table_name)
    refuse_encrypted(metadata.current_snapshot(), handle.table_name)
    refuse_plain_files(metadata, handle.table_name)
    check_paths_for_writes(handle, metadata)
    order = metadata.sort_order() if metadata.sort_order().is_known else UNSORTED_SORT_ORDER
    return WriteTarget(
        table_name=handle.table_name,
        schema=metadata.schema(),
        spec=metadata.spec(),
        sort_order_id=order.order_id,
        sort_order=order,
        data_location=data_folder(metadata),
        location_context="" if f"{data_folder(metadata)}/".startswith(metadata.location) else "/".join(metadata.location.split("/")[-2:]),
        properties=metadata.properties,
        older_schemas=_schemas_of_dropped_sources(metadata),
        io=handle.io,
        operation_uuid=handle.ids.uuid(),
    )


def commit_context(
    handle: TableHandle,
    metadata: TableMetadata,
    snapshot_properties: Mapping[str, str],
    branch: str | None = MAIN,
    engine: Engine | None = None,
) -> CommitContext:
    """Return the context of a new snapshot: its id, its branch or staging, its summary entries, and the folder of its metadata files.

    Raises the errors of `check_branch`, `staging_of_write` and `check_wap_id_is_new`.

    Args:
        handle: The table's catalog entry and storage.
        metadata: The table's metadata.
        snapshot_properties: The summary entries of the caller.
        branch: The branch to write to. If it is None, the parent of the snapshot is the head of `main`, and no branch is moved to the snapshot.
        engine: The engine that writes the rows, which the summary names; None for the engine that is running in this process.
    """
    if branch is None:
        return replace(snapshot_context(handle, metadata, snapshot_properties, MAIN, engine=engine), stage_only=True)
    staging = staging_of_write(metadata, snapshot_properties, branch, handle.table_name)
    if staging.wap_id is not None:
        check_wap_id_is_new(metadata, staging.wap_id)
        snapshot_properties = {**snapshot_properties, WAP_ID: staging.wap_id}
    context = snapshot_context(
        handle, metadata, snapshot_properties, staging.branch or branch, makes_branch=staging.branch is not None, engine=engine
    )
    return replace(context, stage_only=staging.wap_id is not None)


def snapshot_context(
    handle: TableHandle,
    metadata: TableMetadata,
    snapshot_properties: Mapping[str, str],
    branch: str,
    *,
    makes_branch: bool = False,
    engine: Engine | None = None,
) -> CommitContext:
    """Return the context of a new snapshot on `branch`, without any redirection. If `makes_branch` is true, the commit creates a missing branch.

    Raises the errors of `check_branch`.
    """
    if not makes_branch or branch in metadata.refs:
        check_branch(handle, metadata, branch)
    return CommitContext(
        commit_uuid=handle.ids.uuid(),
        snapshot_id=handle.ids.snapshot_id(),
        metadata_location=metadata_folder(metadata),
        branch=branch,
        makes_branch=makes_branch,
        # As in Java, the entries with the writer's name and version override those of the caller.
        snapshot_properties={
            **property_texts(snapshot_properties, "snapshot"),
            **(engine or available_engines.engine_choice().running()).environment(),
            "iceberg-version": f"Icefloe {__version__}",
        },
        parallel=in_threads,
    )


def check_branch(handle: TableHandle, metadata: TableMetadata, branch: str) -> None:
    """Refuse a write to a branch that does not exist.

    Raises:
        NoSuchSnapshotError: the branch does not exist. `main` may be missing, because the first snapshot creates it.
        InvalidInputError: the name is that of a tag.
    """
    ref = metadata.refs.get(branch)
    if ref is None and branch != MAIN:
        branches = ", ".join(sorted(name for name, other in metadata.refs.items() if other.is_branch)) or "none"
        raise NoSuchSnapshotError(
            f"{handle.table_name} has no branch {branch!r}",
            table=handle.table_name,
            next_step=f"create it with table.manage_snapshots().create_branch(...); there are: {branches}",
        )
    if ref is not None and not ref.is_branch:
        raise InvalidInputError(
            f"{branch!r} is a tag of {handle.table_name}: it names one snapshot and takes no writes",
            table=handle.table_name,
            next_step="write to a branch",
        )


def _schemas_of_dropped_sources(metadata: TableMetadata) -> tuple[Schema, ...]:
    """Return older schemas, so that each partition spec with a dropped source column has a schema that contains the column."""
    schemas = [spec_schema(metadata, spec.spec_id) for spec in metadata.partition_specs]
    return tuple({schema.schema_id: schema for schema in schemas if schema.schema_id != metadata.current_schema_id}.values())
