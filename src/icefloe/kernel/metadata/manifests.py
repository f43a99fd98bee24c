"""The manifests of a snapshot and the partition type each is read with. They come from the manifest list or, in old v1 tables, from
the paths written into the snapshot itself.

Spec: Snapshots (`manifest-list`, `manifests`).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from icefloe.errors import ManifestFormatError, MetadataFormatError, Problem
from icefloe.kernel.avro.avro_container import open_container
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.manifest_list.manifest_list_reader import read_manifest_list
from icefloe.kernel.metadata.encryption import refuse_encrypted
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import partition_type
from icefloe.kernel.partitioning.transforms import VoidTransform
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, StructType


def read_manifests(snapshot: Snapshot, read: Callable[[str], bytes]) -> list[ManifestFile]:
    """The snapshot's manifests in the order of its list. Raises `AvroFormatError`, `ManifestFormatError`; `UnsupportedFeatureError` where it is encrypted."""
    refuse_encrypted(snapshot)
    if snapshot.manifest_list is not None:
        return read_manifest_list(read(snapshot.manifest_list), snapshot.manifest_list)
    if snapshot.manifest_paths is None:
        raise ManifestFormatError(
            f"snapshot {snapshot.snapshot_id} has neither `manifest-list` nor `manifests`", snapshot_id=snapshot.snapshot_id
        )
    return [_described(path, read(path), snapshot.snapshot_id) for path in snapshot.manifest_paths]


def _described(path: str, content: bytes, snapshot_id: int) -> ManifestFile:
    """A v1 manifest known only by its path: its own header says which spec it was written with; its counts stay unknown."""
    spec_id = open_container(content, path).metadata.get("partition-spec-id", b"0")
    return ManifestFile(
        manifest_path=path,
        manifest_length=len(content),
        partition_spec_id=int(spec_id),
        content=ManifestContent.DATA,
        sequence_number=0,
        min_sequence_number=0,
        added_snapshot_id=snapshot_id,
    )


def spec_schema(metadata: TableMetadata, spec_id: int) -> Schema:
    """A schema that holds every source column of the spec: the current one, or else the newest that still has them all."""
    sources = {source_id for field in metadata.spec_by_id(spec_id).fields for source_id in field.source_ids}
    candidates = [metadata.schema(), *reversed(metadata.schemas)]
    return next((schema for schema in candidates if sources <= set(schema.field_ids)), metadata.schema())


def spec_partition_type(metadata: TableMetadata, spec_id: int) -> StructType:
    """The type of the partition tuples of a spec's manifests, also where a source column has been dropped since.

    Raises:
        MetadataFormatError: two fields of the spec have one field id, so that nothing tells their values apart.
    """
    spec = metadata.spec_by_id(spec_id)
    counts = Counter(field.field_id for field in spec.fields)
    if twice := [f"field id {field_id} stands twice" for field_id, count in counts.items() if count > 1]:
        raise MetadataFormatError(
            f"partition spec {spec_id} cannot be read with",
            problems=[Problem(where=f"$.partition-specs[spec-id={spec_id}].fields", what=what) for what in twice],
            next_step="the metadata is damaged; restore a metadata file that has the spec as it was",
        )
    return partition_type(spec, metadata.schema(), [*metadata.schemas][::-1])


def table_partition_type(metadata: TableMetadata) -> StructType:
    """Every partition field of every spec, by ascending field id: the type of the metadata column `_partition`.

    A field that a later spec renamed has its newest name; where it is void there, the type that it had before. JAVA: Partitioning.partitionType. Where another
    field of a later spec has taken the name, the older one has its field id behind it, as a void field that gives up its name.
    """
    found: dict[int, NestedField] = {}
    voids: set[int] = set()
    for spec in sorted(metadata.partition_specs, key=lambda spec: -spec.spec_id):
        for field, typed in zip(spec.fields, spec_partition_type(metadata, spec.spec_id).fields, strict=True):
            known, is_void = found.get(field.field_id), isinstance(field.transform, VoidTransform)
            if known is None:
                names = {one.name for one in found.values()}
                found[field.field_id] = replace(typed, name=f"{typed.name}_{field.field_id}") if typed.name in names else typed
                voids |= {field.field_id} if is_void else set()
            elif field.field_id in voids and not is_void:
                found[field.field_id] = replace(known, field_type=typed.field_type)
                voids.discard(field.field_id)
    return StructType(*(found[field_id] for field_id in sorted(found)))
