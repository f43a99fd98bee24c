"""The manifests of a snapshot, and the partition types that they are read with.

Manifests come from the snapshot's manifest list or, in old v1 tables, from the paths in the snapshot itself.

Spec: Snapshots (`manifest-list`, `manifests`).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from icefloe.errors import ManifestFormatError, MetadataFormatError, Problem
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.manifest_list.manifest_list_reader import read_manifest_list
from icefloe.spec.metadata.encryption import refuse_encrypted
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import partition_type
from icefloe.spec.partitioning.transforms import VoidTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.tolerance import Tolerance
from icefloe.spec.types import NestedField, StructType


def read_manifests(snapshot: Snapshot, read: Callable[[str], bytes], tolerance: Tolerance = Tolerance.DEFAULT) -> list[ManifestFile]:
    """Return the snapshot's manifests in the order of its manifest list.

    Args:
        snapshot: The snapshot.
        read: Returns the bytes of the file at a path.
        tolerance: Which deviations of the list are accepted.

    Raises:
        AvroFormatError, ManifestFormatError: the manifest list is damaged.
        UnsupportedFeatureError: the manifest list is encrypted.
    """
    refuse_encrypted(snapshot)
    if snapshot.manifest_list is not None:
        return read_manifest_list(read(snapshot.manifest_list), snapshot.manifest_list, tolerance)
    if snapshot.manifest_paths is None:
        raise ManifestFormatError(
            f"snapshot {snapshot.snapshot_id} has neither `manifest-list` nor `manifests`", snapshot_id=snapshot.snapshot_id
        )
    return [_manifest_from_header(path, read(path), snapshot.snapshot_id) for path in snapshot.manifest_paths]


def _manifest_from_header(path: str, content: bytes, snapshot_id: int) -> ManifestFile:
    """Return the record of a version 1 manifest that no manifest list describes. Its spec id is read from its header; its counts are unknown."""
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
    """Return a schema that has every source column of the spec: the current schema, or else the newest that has them all; the current one if none has."""
    sources = {source_id for field in metadata.spec_by_id(spec_id).fields for source_id in field.source_ids}
    candidates = [metadata.schema(), *reversed(metadata.schemas)]
    return next((schema for schema in candidates if sources <= set(schema.field_ids)), metadata.schema())


def spec_partition_type(metadata: TableMetadata, spec_id: int) -> StructType:
    """Return the type of the partition tuples in manifests of a spec, even if a source column has been dropped since.

    Raises:
        MetadataFormatError: two fields of the spec have the same field id, which makes their values ambiguous.
    """
    spec = metadata.spec_by_id(spec_id)
    counts = Counter(field.field_id for field in spec.fields)
    if repeated := [f"field id {field_id} occurs twice" for field_id, count in counts.items() if count > 1]:
        raise MetadataFormatError(
            f"files cannot be read with partition spec {spec_id}",
            problems=[Problem(where=f"$.partition-specs[spec-id={spec_id}].fields", what=what) for what in repeated],
            next_step="the metadata is damaged; restore a metadata file that has the spec as it was",
        )
    return partition_type(spec, metadata.schema(), [*metadata.schemas][::-1])


def table_partition_type(metadata: TableMetadata) -> StructType:
    """Return the type of the metadata column `_partition`: a struct of every partition field of every spec, by ascending field id.

    A field that a later spec renamed has its newest name. A field that is void in a later spec has its earlier type. If another field of a later spec has the
    same name, the field id is appended to the name of the older field. JAVA: Partitioning.partitionType.
    """
    fields_by_id: dict[int, NestedField] = {}
    void_ids: set[int] = set()
    for spec in sorted(metadata.partition_specs, key=lambda spec: -spec.spec_id):
        for field, typed in zip(spec.fields, spec_partition_type(metadata, spec.spec_id).fields, strict=True):
            newest, is_void = fields_by_id.get(field.field_id), isinstance(field.transform, VoidTransform)
            if newest is None:
                names = {other.name for other in fields_by_id.values()}
                fields_by_id[field.field_id] = replace(typed, name=f"{typed.name}_{field.field_id}") if typed.name in names else typed
                void_ids |= {field.field_id} if is_void else set()
            elif field.field_id in void_ids and not is_void:
                fields_by_id[field.field_id] = replace(newest, field_type=typed.field_type)
                void_ids.discard(field.field_id)
    return StructType(*(fields_by_id[field_id] for field_id in sorted(fields_by_id)))
