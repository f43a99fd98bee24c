"""The writer of manifests of many added files. It encodes field by field, compresses blocks in parallel, and begins a new manifest at the target size.

`manifest_writer.py` writes entries one by one, `manifest_column_writer.py` columns; all three write the same manifest for the same files.
Spec: Manifests; Sequence Number Inheritance; First Row ID Inheritance.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.spec.avro.avro_codec import Bytes, codec_name, compress
from icefloe.spec.avro.avro_container import blocks_container, split_into_blocks
from icefloe.spec.avro.avro_schema import parse_schema
from icefloe.spec.avro.compiled_codec import AVAILABLE
from icefloe.spec.avro.write_avro_columns import Records
from icefloe.spec.avro.write_avro_rows import Attribute, Constant, encode_records
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.file_rules import check_added
from icefloe.spec.manifest.manifest_column_writer import ManifestTarget, header_of
from icefloe.spec.manifest.manifest_merge import Parallel
from icefloe.spec.manifest.manifest_schema import ENTRY_FIELD_IDS
from icefloe.spec.manifest.manifest_writer import V1_BLOCK_SIZE, write_manifest
from icefloe.spec.manifest.partition_summary import summarise
from icefloe.spec.manifest.partition_values import is_written_as_it_is, tuple_writer
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile

# Fields that only files with some contents have, each with these contents. Spec: Data File Fields.
_CONTENTS_WITH_FIELD = {
    "equality_ids": {FileContent.EQUALITY_DELETES},
    "sort_order_id": {FileContent.DATA, FileContent.EQUALITY_DELETES},
    "referenced_data_file": {FileContent.POSITION_DELETES},
    "content_offset": {FileContent.POSITION_DELETES},
    "content_size_in_bytes": {FileContent.POSITION_DELETES},
}
_PARTITION, _BLOCK_SIZE = 102, 105
# The number of files that are encoded at a time: one or two megabytes, so that memory is reused.
_FILES_AT_ONCE = 2048
# The number of blocks of 64,000 bytes that one call compresses, and of such batches that may wait for compression: eight megabytes in total.
_BLOCKS_PER_BATCH, _WAITING_BATCHES = 32, 4


def write_added_manifests(
    files: Sequence[DataFile],
    next_target: Callable[[], ManifestTarget],
    *,
    sequence_number: int | None = None,
    target_bytes: int,
    parallel: Parallel = map,
    by_compiled: bool = AVAILABLE,
) -> list[tuple[bytes, ManifestFile]]:
    """Write one or more manifests with an ADDED entry for each of these files, in their order.

    A manifest ends with the block with which it reaches `target_bytes`. If one manifest is enough, it has the same bytes as from
    `manifest_writer.write_manifest`.

    Args:
        files: The files, all of one partition spec and content.
        next_target: Returns the target of the next manifest; targets differ only in their path.
        sequence_number: Data sequence number of the files; None if they inherit that of the commit.
        target_bytes: Size at which a manifest is full.
        parallel: Maps a function over batches, possibly in parallel.
        by_compiled: Use the compiled codec.

    Returns:
        The bytes of each manifest, and its record for the manifest list.

    Raises:
        InvalidInputError, InvalidPropertyError, UnsupportedFormatVersionError: as `write_manifest`.
    """
    target = next_target()
    # Data files need a check only if one of them has the format Puffin.
    formats = set(map(attrgetter("file_format"), files))
    for file in files if target.content != ManifestContent.DATA or FileFormat.PUFFIN in formats else ():
        check_added(file, target.format_version)
    schema_text, metadata = header_of(target)
    codec = codec_name(target.codec)
    blocks = split_into_blocks(_encode_files(list(files), target, sequence_number, by_compiled))
    manifests = []
    start = 0
    for manifest_blocks in _group_by_size(_compress_blocks(blocks, codec, parallel), target_bytes):
        data = blocks_container(schema_text, metadata, codec, manifest_blocks)
        end = start + sum(count for count, _ in manifest_blocks)
        manifests.append((data, _manifest_file(files[start:end], target, sequence_number, len(data))))
        start = end
        target = next_target() if end < len(files) else target
    return manifests


def _encode_files(files: list[DataFile], target: ManifestTarget, sequence_number: int | None, by_compiled: bool) -> Iterator[Records]:
    """Yield the encoded entries of the files, some thousand at a time. Raises the errors of `write_manifest`."""
    schema = parse_schema(header_of(target)[0].encode())
    for start in range(0, len(files), _FILES_AT_ONCE):
        batch = files[start : start + _FILES_AT_ONCE]
        try:
            yield encode_records(schema, _values(batch, target, sequence_number), batch, by_compiled=by_compiled)
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            _raise_for_file(batch, target, sequence_number)  # raises an error that names the file
            raise InvalidInputError(f"the entries of {target.path} cannot be written: {error}", path=target.path) from error


def _compress_blocks(blocks: Iterator[tuple[int, Bytes]], codec: str, parallel: Parallel) -> Iterator[tuple[int, Bytes]]:
    """Compress the blocks and yield them in order."""

    def compress_batch(batch: list[tuple[int, Bytes]]) -> list[tuple[int, Bytes]]:
        return [(count, compress(codec, data)) for count, data in batch]

    batches = _batches_of(blocks, _BLOCKS_PER_BATCH)
    while waiting := list(islice(batches, _WAITING_BATCHES)):
        compressed = parallel(compress_batch, waiting) if len(waiting) > 1 else map(compress_batch, waiting)
        yield from chain.from_iterable(compressed)


def _values(files: Sequence[DataFile], target: ManifestTarget, sequence_number: int | None) -> dict[int, Any]:
    """Return the values of the entries' fields by field id."""
    contents = set(map(attrgetter("content"), files))
    values: dict[int, Any] = {
        0: Constant(int(ManifestEntryStatus.ADDED)),
        1: Constant(target.snapshot_id),
        3: Constant(sequence_number),
        4: Constant(None),
        _PARTITION: _partitions(files, target),
        _BLOCK_SIZE: Constant(V1_BLOCK_SIZE),
        142: Constant(None),  # null, because it is inherited from the manifest list. Spec: First Row ID Inheritance.
    }
    for field_id, name in ENTRY_FIELD_IDS.items():
        if field_id not in values:
            values[field_id] = _column(files, name, contents)
    return values


def _partitions(files: Sequence[DataFile], target: ManifestTarget) -> Any:
    if not target.partition_type.fields:
        return Constant(())
    if is_written_as_it_is(target.partition_type):
        return Attribute("partition")
    return list(map(tuple_writer(target.partition_type), map(attrgetter("partition"), files)))


def _column(files: Sequence[DataFile], name: str, contents: set[FileContent]) -> Any:
    allowed = _CONTENTS_WITH_FIELD.get(name, contents)
    if not contents & allowed:
        return Constant(None)
    if not contents <= allowed:
        return [getattr(file, name) if file.content in allowed else None for file in files]
    return Constant(next(iter(contents))) if name == "content" and len(contents) == 1 else Attribute(name)


def _batches_of(blocks: Iterator[tuple[int, Bytes]], size: int) -> Iterator[list[tuple[int, Bytes]]]:
    """Yield lists of `size` successive blocks; the last list may be shorter."""
    while batch := list(islice(blocks, size)):
        yield batch


def _group_by_size(blocks: Iterable[tuple[int, Bytes]], target_bytes: int) -> Iterator[list[tuple[int, Bytes]]]:
    group: list[tuple[int, Bytes]] = []
    size = 0
    for count, compressed in blocks:
        group.append((count, compressed))
        size += len(compressed)
        if size >= target_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group


def _manifest_file(files: Sequence[DataFile], target: ManifestTarget, sequence_number: int | None, length: int) -> ManifestFile:
    return ManifestFile(
        manifest_path=target.path,
        manifest_length=length,
        partition_spec_id=target.spec_id,
        content=target.content,
        sequence_number=UNASSIGNED_SEQ,
        min_sequence_number=UNASSIGNED_SEQ if sequence_number is None else sequence_number,
        added_snapshot_id=target.snapshot_id,
        added_files_count=len(files),
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=sum(map(attrgetter("record_count"), files)),
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=summarise(target.partition_type, list(map(attrgetter("partition"), files))),
    )


def _raise_for_file(files: Sequence[DataFile], target: ManifestTarget, sequence_number: int | None) -> None:
    """Raise the error that names the invalid file, which is found by writing the entries one by one."""
    added = ManifestEntryStatus.ADDED
    write_manifest(
        [ManifestEntry(added, target.snapshot_id, sequence_number, None, file) for file in files],
        path=target.path,
        schema=target.schema,
        schema_json=target.schema_json,
        spec_fields_json=target.spec_fields_json,
        spec_id=target.spec_id,
        partition_type=target.partition_type,
        snapshot_id=target.snapshot_id,
        format_version=target.format_version,
        content=target.content,
        codec=target.codec,
    )
