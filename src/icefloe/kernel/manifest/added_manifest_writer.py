"""Writes the manifests of many added files: field by field, blocks compressed side by side, a new manifest where one has reached its size.

From entries one by one is `write.py`, from columns `write_columns.py`; what all say about a manifest is the same.
Spec: Manifests; Sequence Number Inheritance; First Row ID Inheritance.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.kernel.avro.avro_codec import Bytes, codec_name, compress
from icefloe.kernel.avro.avro_container import blocks_container, divided
from icefloe.kernel.avro.avro_schema import parse_schema
from icefloe.kernel.avro.compiled_codec import ENCODES_OBJECTS
from icefloe.kernel.avro.write_avro_columns import Records
from icefloe.kernel.avro.write_avro_rows import Attribute, Constant, encode_records
from icefloe.kernel.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.kernel.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.kernel.manifest.file_rules import check_added
from icefloe.kernel.manifest.manifest_column_writer import ManifestTarget, header_of
from icefloe.kernel.manifest.manifest_merge import Parallel
from icefloe.kernel.manifest.manifest_schema import ENTRY_FIELD_IDS
from icefloe.kernel.manifest.manifest_writer import V1_BLOCK_SIZE, write_manifest
from icefloe.kernel.manifest.partition_summary import summarise
from icefloe.kernel.manifest.partition_values import is_written_as_it_is, tuple_writer
from icefloe.kernel.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile

# What files of the other contents do not have. Spec: Data File Fields.
_ONLY_OF = {
    "equality_ids": {FileContent.EQUALITY_DELETES},
    "sort_order_id": {FileContent.DATA, FileContent.EQUALITY_DELETES},
    "referenced_data_file": {FileContent.POSITION_DELETES},
    "content_offset": {FileContent.POSITION_DELETES},
    "content_size_in_bytes": {FileContent.POSITION_DELETES},
}
_PARTITION, _BLOCK_SIZE = 102, 105
# Files encoded at a time: a megabyte or two, so that memory is used again in place of asking for more.
_FILES_AT_ONCE = 2048
# Blocks of 64,000 bytes that one thread compresses at a time, and how many of those are held before they are: eight megabytes in all.
_BLOCKS_AT_ONCE, _HELD = 32, 4


def write_added_manifests(
    files: Sequence[DataFile],
    next_target: Callable[[], ManifestTarget],
    *,
    sequence_number: int | None = None,
    target_bytes: int,
    parallel: Parallel = map,
    by_compiled: bool = ENCODES_OBJECTS,
) -> list[tuple[bytes, ManifestFile]]:
    """Manifests of ADDED entries of these files, in order, and their lines for the manifest list; all files are of one spec and content.

    A manifest ends with the block that makes it as large as `target_bytes`. `next_target` gives each a name; the targets are alike in all else.
    Where one is enough, its bytes are those of `write.write_manifest`.

    Raises:
        As `write.write_manifest`.
    """
    target = next_target()
    # Of data files only the format has a rule.
    formats = set(map(attrgetter("file_format"), files))
    for file in files if target.content != ManifestContent.DATA or FileFormat.PUFFIN in formats else ():
        check_added(file, target.format_version)
    schema_text, metadata = header_of(target)
    codec = codec_name(target.codec)
    blocks = divided(_encoded(list(files), target, sequence_number, by_compiled))
    made = []
    start = 0
    for chosen in _runs(_packed(blocks, codec, parallel), target_bytes):
        data = blocks_container(schema_text, metadata, codec, chosen)
        end = start + sum(count for count, _ in chosen)
        made.append((data, _line(files[start:end], target, sequence_number, len(data))))
        start = end
        target = next_target() if end < len(files) else target
    return made


def _encoded(files: list[DataFile], target: ManifestTarget, sequence_number: int | None, by_compiled: bool) -> Iterator[Records]:
    """The entries, some thousand at a time. Raises as `write.write_manifest`."""
    schema = parse_schema(header_of(target)[0].encode())
    for start in range(0, len(files), _FILES_AT_ONCE):
        some = files[start : start + _FILES_AT_ONCE]
        try:
            yield encode_records(schema, _values(some, target, sequence_number), some, by_compiled=by_compiled)
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            _tell(some, target, sequence_number)  # raises, and names the file
            raise InvalidInputError(f"the entries of {target.path} cannot be written: {error}", path=target.path) from error


def _packed(blocks: Iterator[tuple[int, Bytes]], codec: str, parallel: Parallel) -> Iterator[tuple[int, Bytes]]:
    """The blocks compressed, in order."""

    def compressed(batch: list[tuple[int, Bytes]]) -> list[tuple[int, Bytes]]:
        return [(count, compress(codec, data)) for count, data in batch]

    batches = _batched(blocks, _BLOCKS_AT_ONCE)
    while held := list(islice(batches, _HELD)):
        yield from chain.from_iterable(parallel(compressed, held))


def _values(files: Sequence[DataFile], target: ManifestTarget, sequence_number: int | None) -> dict[int, Any]:
    """The entries' fields by id."""
    contents = set(map(attrgetter("content"), files))
    values: dict[int, Any] = {
        0: Constant(int(ManifestEntryStatus.ADDED)),
        1: Constant(target.snapshot_id),
        3: Constant(sequence_number),
        4: Constant(None),
        _PARTITION: _partitions(files, target),
        _BLOCK_SIZE: Constant(V1_BLOCK_SIZE),
        142: Constant(None),  # row ids come from the manifest list. Spec: First Row ID Inheritance.
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
    allowed = _ONLY_OF.get(name, contents)
    if not contents & allowed:
        return Constant(None)
    if not contents <= allowed:
        return [getattr(file, name) if file.content in allowed else None for file in files]
    return Constant(next(iter(contents))) if name == "content" and len(contents) == 1 else Attribute(name)


def _batched(blocks: Iterator[tuple[int, Bytes]], size: int) -> Iterator[list[tuple[int, Bytes]]]:
    """The blocks in lists of this many."""
    while batch := list(islice(blocks, size)):
        yield batch


def _runs(blocks: Iterable[tuple[int, Bytes]], target_bytes: int) -> Iterator[list[tuple[int, Bytes]]]:
    run: list[tuple[int, Bytes]] = []
    size = 0
    for count, packed in blocks:
        run.append((count, packed))
        size += len(packed)
        if size >= target_bytes:
            yield run
            run, size = [], 0
    if run:
        yield run


def _line(files: Sequence[DataFile], target: ManifestTarget, sequence_number: int | None, length: int) -> ManifestFile:
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


def _tell(files: Sequence[DataFile], target: ManifestTarget, sequence_number: int | None) -> None:
    """Writes them one by one, which names the file that cannot be written."""
    added = ManifestEntryStatus.ADDED
    number = sequence_number if target.content == ManifestContent.DATA else None
    write_manifest(
        [ManifestEntry(added, target.snapshot_id, number, None, file) for file in files],
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
