"""Writes manifest lists: from manifests, or by adding new manifests before those of an old list, which is not decoded.

`assign_first_row_ids` gives the manifests of a version 3 snapshot their row ids before the list is written; `spec/manifest/inheritance.py` computes those of
the files in a manifest.
Spec: Manifest Lists; Sequence Numbers; First Row ID Assignment; Row Lineage; Row lineage example.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icefloe.errors import InvalidInputError, MetadataFormatError
from icefloe.spec.avro.avro_codec import codec_name
from icefloe.spec.avro.avro_container import (
    BLOCK_BYTES,
    Container,
    RawBlock,
    block_bytes,
    header_bytes,
    open_container,
    raw_blocks,
    read_block,
    sync_marker,
    write_container,
)
from icefloe.spec.avro.avro_schema import parse_schema, wire_form
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile
from icefloe.spec.manifest_list.manifest_list_reader import read_manifest_list
from icefloe.spec.manifest_list.manifest_list_schema import manifest_list_codec, manifest_list_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """The properties of the snapshot that a manifest list is written for."""

    format_version: int
    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    first_row_id: int | None

    def metadata(self) -> dict[str, str]:
        """Return the key-value metadata of the Avro file, as in Java."""
        parent = "null" if self.parent_snapshot_id is None else str(self.parent_snapshot_id)
        pairs = {"snapshot-id": str(self.snapshot_id), "parent-snapshot-id": parent}
        if self.format_version > 1:
            pairs["sequence-number"] = str(self.sequence_number)
        if self.format_version > 2:
            pairs["first-row-id"] = str(self.first_row_id)
        return {**pairs, "format-version": str(self.format_version)}


def write_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
    codec: str = "deflate",
) -> bytes:
    """Return the bytes of a whole manifest list, in the order of `manifests`.

    Args:
        manifests: The manifests. `UNASSIGNED_SEQ` in a manifest of this commit is replaced by `sequence_number`. From v3 on every data manifest has its
            first row id already (`row_ids.assign_first_row_ids`).
        format_version: Format version of the table.
        snapshot_id: The snapshot of the list.
        parent_snapshot_id: Its parent.
        sequence_number: The sequence number of the commit.
        first_row_id: The first row id of the snapshot, from v3 on.
        codec: Avro compression codec.

    Raises:
        InvalidInputError: A manifest is not allowed in this format version, or has no sequence number although another snapshot added it.
        InvalidPropertyError: The codec is unknown.
        UnsupportedFormatVersionError: The format version is above 3.
    """
    commit = _Commit(
        format_version=format_version,
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent_snapshot_id,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
    )
    schema_text, _ = manifest_list_codec(format_version)
    return write_container(schema_text, commit.metadata(), codec_name(codec), _encode_manifests(manifests, commit))


def append_to_manifest_list(
    content: bytes,
    path: str,
    new: Sequence[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
    codec: str = "deflate",
) -> bytes:
    """Return a manifest list with the manifests `new` before those of the old list, which is Java's order.

    If codec and schema are the same, blocks of the old list are copied unchanged. Small blocks at the front are merged with the new block, like carries in a
    binary counter: after a thousand appends there are about ten blocks, and each manifest was compressed about ten times. From version 3 on, every data
    manifest of the old list must have its row ids (`manifest_list_reader.has_row_ids`).

    Args:
        content: The bytes of the old list.
        path: The location of the old list, for errors.
        new: The new manifests.
        format_version: As in `write_manifest_list`.
        snapshot_id: As in `write_manifest_list`.
        parent_snapshot_id: As in `write_manifest_list`.
        sequence_number: As in `write_manifest_list`.
        first_row_id: As in `write_manifest_list`.
        codec: As in `write_manifest_list`.

    Raises:
        AvroFormatError: The old list is damaged.
        InvalidInputError, InvalidPropertyError, UnsupportedFormatVersionError: As in `write_manifest_list`.
    """
    commit = _Commit(
        format_version=format_version,
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent_snapshot_id,
        sequence_number=sequence_number,
        first_row_id=first_row_id,
    )
    old = open_container(content, path)
    name = codec_name(codec)
    schema_text, _ = manifest_list_codec(format_version)
    if old.codec != name or not _same_form(old, schema_text, format_version):
        return write_container(schema_text, commit.metadata(), name, _encode_manifests([*new, *read_manifest_list(content, path)], commit))
    pending = list(_encode_manifests(new, commit))
    count, data, copied = _carry(old, len(pending), b"".join(pending), list(raw_blocks(old)))
    metadata = commit.metadata()
    sync = sync_marker(schema_text, metadata, name)
    parts = [header_bytes(schema_text, metadata, name, sync)]
    if count:
        parts.append(block_bytes(count, data, name, sync))
    for block in copied:
        parts += (content[block.offset : block.end], sync)
    return b"".join(parts)


def can_append(content: bytes, path: str, format_version: int) -> bool:
    """Return True if `append_to_manifest_list` can copy blocks of an old list: its schema must encode the same fields as the schema of the format version.

    Raises:
        AvroFormatError: The list is damaged.
    """
    schema_text, _ = manifest_list_codec(format_version)
    return _same_form(open_container(content, path), schema_text, format_version)


def _same_form(old: Container, schema_text: str, format_version: int) -> bool:
    if old.schema_text == schema_text.encode():
        return True
    try:
        return bool(wire_form(parse_schema(old.schema_text)) == wire_form(manifest_list_schema(format_version)))
    except ValueError:
        return False


def _carry(old: Container, count: int, data: bytes, blocks: list[RawBlock]) -> tuple[int, bytes, list[RawBlock]]:
    """Merge blocks at the front of the old list into the new block, as long as they do not have more records than the new block.

    Returns:
        The number of records and the bytes of the new block, and the blocks that are copied unchanged.
    """
    merged = 0
    for block in blocks:
        if block.count > count or len(data) >= BLOCK_BYTES:
            break
        data += read_block(old, block)
        count += block.count
        merged += 1
    return count, data, blocks[merged:]


def _encode_manifests(manifests: Iterable[ManifestFile], commit: _Commit) -> Iterator[bytes]:
    _, encode = manifest_list_codec(commit.format_version)
    for manifest in manifests:
        yield encode(_record(manifest, commit))


def _record(manifest: ManifestFile, commit: _Commit) -> tuple[Any, ...]:
    head = (manifest.manifest_path, manifest.manifest_length, manifest.partition_spec_id)
    counts = (
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
        manifest.added_rows_count,
        manifest.existing_rows_count,
        manifest.deleted_rows_count,
    )
    partitions = manifest.partitions
    summaries = None if partitions is None else [(s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound) for s in partitions]
    tail = (*counts, summaries, manifest.key_metadata)
    if commit.format_version == 1:
        if manifest.content != ManifestContent.DATA:
            raise InvalidInputError(f"{manifest.manifest_path} contains deletes, which a table of format version 1 cannot have")
        return (*head, manifest.added_snapshot_id, *tail)
    if None in counts:
        raise InvalidInputError(
            f"{manifest.manifest_path} has unknown counts, which a manifest list of format version {commit.format_version} requires",
            next_step="let rewrite_manifests write the manifest again",
        )
    sequence_number = _assign_number(manifest, manifest.sequence_number, commit)
    min_sequence_number = _assign_number(manifest, manifest.min_sequence_number, commit)
    record = (*head, int(manifest.content), sequence_number, min_sequence_number, manifest.added_snapshot_id, *tail)
    return record if commit.format_version == 2 else (*record, _first_row_id(manifest))


def _first_row_id(manifest: ManifestFile) -> int | None:
    if (manifest.first_row_id is None) == (manifest.content == ManifestContent.DATA):
        what = "contains data and has no" if manifest.first_row_id is None else "contains deletes and has a"
        raise InvalidInputError(f"{manifest.manifest_path} {what} first row id in a manifest list of format version 3")
    return manifest.first_row_id


def _assign_number(manifest: ManifestFile, number: int, commit: _Commit) -> int:
    if number != UNASSIGNED_SEQ:
        return number
    if manifest.added_snapshot_id != commit.snapshot_id:
        raise InvalidInputError(
            f"{manifest.manifest_path} has no sequence number, though snapshot {manifest.added_snapshot_id} added it, not {commit.snapshot_id}"
        )
    return commit.sequence_number


_MAX_LONG = 2**63 - 1


def assign_first_row_ids(manifests: Iterable[ManifestFile], next_row_id: int) -> tuple[list[ManifestFile], int]:
    """Return the manifests in the same order, each data manifest with a first row id, and the next row id after all of them.

    A manifest that has a first row id keeps it; delete manifests get none. Other manifests, which are new or from before version 3, get `next_row_id`, which
    then advances by the number of their added and existing rows. Some of their existing files may have row ids already, so that ids may be left unused.

    Raises:
        InvalidInputError: A manifest's row counts are unknown.
    """
    assigned = []
    for manifest in manifests:
        if manifest.content != ManifestContent.DATA or manifest.first_row_id is not None:
            assigned.append(manifest)
            continue
        if manifest.added_rows_count is None or manifest.existing_rows_count is None:
            raise InvalidInputError(
                f"{manifest.manifest_path} cannot get row ids: its row counts are unknown",
                path=manifest.manifest_path,
                next_step="let rewrite_manifests write the manifest again",
            )
        assigned.append(replace(manifest, first_row_id=next_row_id))
        next_row_id += manifest.added_rows_count + manifest.existing_rows_count
    if next_row_id > _MAX_LONG:
        raise MetadataFormatError(
            f"the table's next-row-id would become {next_row_id}, more than 64 bits hold: no rows can be added",
            next_step="no writer of Iceberg counts so far: restore an earlier metadata file, or copy the rows to a new table",
        )
    return assigned, next_row_id
