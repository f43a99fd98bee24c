"""`SnapshotExpiry`: the action that removes snapshots, branches and tags from the metadata of a table by its retention policy. JAVA: RemoveSnapshots.

`spec/metadata/retention.py` selects what expires, again for every base. `icefloe.operations.expiry.file_cleanup` deletes the files that are no longer
referenced.
Spec: Snapshot Retention Policy; REST catalog, TableUpdate and TableRequirement.
"""

from collections.abc import Sequence

from icefloe.commit.attempt import Attempt, Read
from icefloe.errors import InvalidInputError
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.layout_updates import RemovePartitionSpecs, RemoveSchemas
from icefloe.spec.metadata.metadata_updates import Update, apply_updates
from icefloe.spec.metadata.requirement import AssertRefSnapshotId, AssertTableUUID
from icefloe.spec.metadata.retention import Expired, Retention, select_expired
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.spec.metadata.snapshot_updates import RemoveSnapshotRef, RemoveSnapshots
from icefloe.spec.metadata.table_metadata import TableMetadata


class SnapshotExpiry:
    """The commit action that expires snapshots.

    Attributes:
        base: the base of the last attempt.
        expired: the snapshots, branches and tags that it removes.
        spec_ids: the unused partition specs that it removes.
        schema_ids: the unused schemas that it removes.
    """

    def __init__(self, retention: Retention, *, clean_metadata: bool = False, deletes_files: bool = True) -> None:
        """Create the action.

        Args:
            retention: which snapshots and refs to keep or to remove.
            clean_metadata: also remove unused partition specs and schemas.
            deletes_files: whether the caller will delete files after the commit, which a table with `gc.enabled=false` forbids.
        """
        self._retention = retention
        self._clean_metadata = clean_metadata
        self._deletes_files = deletes_files
        self.base: TableMetadata | None = None
        self.expired = Expired()
        self.spec_ids: tuple[int, ...] = ()
        self.schema_ids: tuple[int, ...] = ()

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:  # noqa: ARG002
        """Return the attempt on a base, see `Action.attempt`.

        Raises:
            InvalidInputError: a branch or tag refers to a snapshot that is to be removed by its id, or the table forbids the deletion of its files.
        """
        if self._deletes_files:
            check_files_may_be_deleted(base)
        self.base, self.spec_ids, self.schema_ids = base, (), ()
        self.expired = select_expired(base, self._retention, now_ms)
        updates: list[Update] = [RemoveSnapshotRef(name) for name in self.expired.refs]
        if self.expired.snapshot_ids:
            updates.append(RemoveSnapshots(self.expired.snapshot_ids))
        if self._clean_metadata:
            updates += self._unused_metadata(apply_updates(base, updates, now_ms), read)
        if not updates:
            return None
        # All refs must be unchanged, the expired ones too: a ref that was moved can keep other snapshots, and an expired ref may be at a newer snapshot now.
        heads = tuple(AssertRefSnapshotId(name, ref.snapshot_id) for name, ref in sorted(base.refs.items()))
        return Attempt(updates=tuple(updates), requirements=(AssertTableUUID(base.table_uuid), *heads))

    def _unused_metadata(self, remaining: TableMetadata, read: Read) -> list[Update]:
        """Return the updates that remove partition specs which no manifest uses, and schemas which no snapshot uses.

        A schema is kept if it is the only one that has a source column of a used spec. JAVA: RemoveSnapshots.cleanExpiredMetadata removes such a schema too, so
        that manifests of that spec cannot be read any more.
        """
        used_specs = {remaining.default_spec_id}
        if len(remaining.partition_specs) > 1:
            used_specs |= {manifest.partition_spec_id for snapshot in remaining.snapshots for manifest in read_manifests(snapshot, read)}
        self.spec_ids = tuple(sorted(remaining.partition_specs.ids() - used_specs))
        used_schemas = {
            remaining.current_schema_id,
            *(snapshot.schema_id for snapshot in remaining.snapshots if snapshot.schema_id is not None),
        }
        used_schemas |= _schemas_of_sources(remaining, used_specs, used_schemas)
        self.schema_ids = tuple(sorted(remaining.schemas.ids() - used_schemas))
        updates: list[Update] = [RemovePartitionSpecs(self.spec_ids)] if self.spec_ids else []
        return [*updates, RemoveSchemas(self.schema_ids)] if self.schema_ids else updates


def check_files_may_be_deleted(metadata: TableMetadata) -> None:
    """Raise `InvalidInputError` if `gc.enabled` is false: the files may belong to other tables too."""
    if not table_properties.GC_ENABLED.read(metadata.properties):
        raise InvalidInputError(
            "the table property gc.enabled is false: the files may belong to other tables too, so none can be deleted",
            next_step="expire with delete_files=False, which changes only the metadata; or set gc.enabled to true if no other table needs the files",
        )


def _schemas_of_sources(metadata: TableMetadata, spec_ids: set[int], schema_ids: set[int]) -> set[int]:
    """Return the ids of further schemas that must be kept for the types of source columns.

    For each source column of these specs that none of these schemas has, it is the newest schema that has the column.
    """
    covered_ids = {field_id for schema_id in schema_ids for field_id in metadata.schema_by_id(schema_id).field_ids}
    required_schema_ids = set()
    for spec_id in sorted(spec_ids):
        for source_id in (source_id for field in metadata.spec_by_id(spec_id).fields for source_id in field.source_ids):
            if source_id not in covered_ids:
                required_schema_ids |= set([schema.schema_id for schema in metadata.schemas if source_id in schema.field_ids][-1:])
                covered_ids.add(source_id)
    return required_schema_ids
