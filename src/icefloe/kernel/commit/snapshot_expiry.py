"""`ExpireSnapshots`: the action that takes snapshots, branches and tags out of a table by its retention policy; rows and files stay as they are.

Which go is chosen anew on every base (`kernel/metadata/retention.py`). The files that nothing needs afterwards are `icefloe.table.expiry.file_cleanup`'s.
Spec: Snapshot Retention Policy; REST catalog, TableUpdate and TableRequirement.
"""

from collections.abc import Sequence

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.attempt import Attempt, Read
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.layout_updates import RemovePartitionSpecs, RemoveSchemas
from icefloe.kernel.metadata.manifests import read_manifests
from icefloe.kernel.metadata.metadata_updates import Update, apply_updates
from icefloe.kernel.metadata.requirement import AssertRefSnapshotId, AssertTableUUID
from icefloe.kernel.metadata.retention import Expired, Retention, expired
from icefloe.kernel.metadata.snapshot_updates import RemoveSnapshotRef, RemoveSnapshots
from icefloe.kernel.metadata.table_metadata import TableMetadata


class ExpireSnapshots:
    """After an attempt, `base` is what it was made on, `expired` what it takes out, `spec_ids` and `schema_ids` what goes with it.

    `deletes_files` says that the caller will delete files once the commit stands, which a table with `gc.enabled` false forbids.
    """

    def __init__(self, retention: Retention, *, clean_metadata: bool = False, deletes_files: bool = True) -> None:
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
        """See `Action.attempt`.

        Raises:
            InvalidInputError: a branch or tag needs a snapshot that was asked for by its id, or the table forbids the deletion of its files.
        """
        if self._deletes_files:
            check_files_may_be_deleted(base)
        self.base, self.spec_ids, self.schema_ids = base, (), ()
        self.expired = expired(base, self._retention, now_ms)
        updates: list[Update] = [RemoveSnapshotRef(name) for name in self.expired.refs]
        if self.expired.snapshot_ids:
            updates.append(RemoveSnapshots(self.expired.snapshot_ids))
        if self._clean_metadata:
            updates += self._unused_metadata(apply_updates(base, updates, now_ms), read)
        if not updates:
            return None
        # Every reference, kept or not: one that moved may lead to other snapshots, and one whose age decided may name a younger one.
        heads = tuple(AssertRefSnapshotId(name, ref.snapshot_id) for name, ref in sorted(base.refs.items()))
        return Attempt(updates=tuple(updates), requirements=(AssertTableUUID(base.table_uuid), *heads))

    def _unused_metadata(self, kept: TableMetadata, read: Read) -> list[Update]:
        """The removal of partition specs that no manifest is written with, and of schemas that no snapshot is read with.

        JAVA: RemoveSnapshots.cleanExpiredMetadata. It also drops a schema that alone knows the type of a spec's column; its manifests could not be read then.
        """
        used_specs = {kept.default_spec_id}
        if len(kept.partition_specs) > 1:
            used_specs |= {manifest.partition_spec_id for snapshot in kept.snapshots for manifest in read_manifests(snapshot, read)}
        self.spec_ids = tuple(sorted(kept.partition_specs.ids() - used_specs))
        used_schemas = {kept.current_schema_id, *(snapshot.schema_id for snapshot in kept.snapshots if snapshot.schema_id is not None)}
        used_schemas |= _schemas_of_sources(kept, used_specs, used_schemas)
        self.schema_ids = tuple(sorted(kept.schemas.ids() - used_schemas))
        updates: list[Update] = [RemovePartitionSpecs(self.spec_ids)] if self.spec_ids else []
        return [*updates, RemoveSchemas(self.schema_ids)] if self.schema_ids else updates


def check_files_may_be_deleted(metadata: TableMetadata) -> None:
    """Raises `InvalidInputError` where the table says that its files are not its own: another table may need them."""
    if not table_properties.GC_ENABLED.read(metadata.properties):
        raise InvalidInputError(
            "the table property gc.enabled is false: its files may be those of other tables too, so none may be deleted",
            next_step="expire with delete_files=False, which changes the metadata alone; or set gc.enabled to true where no other table needs the files",
        )


def _schemas_of_sources(metadata: TableMetadata, spec_ids: set[int], schema_ids: set[int]) -> set[int]:
    """For each source column of these specs that none of these schemas has: the newest schema that has it, which knows its type."""
    known = {field_id for schema_id in schema_ids for field_id in metadata.schema_by_id(schema_id).field_ids}
    found = set()
    for spec_id in sorted(spec_ids):
        for source_id in (source_id for field in metadata.spec_by_id(spec_id).fields for source_id in field.source_ids):
            if source_id not in known:
                found |= set([schema.schema_id for schema in metadata.schemas if source_id in schema.field_ids][-1:])
                known.add(source_id)
    return found
