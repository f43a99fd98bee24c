"""Many manifests of one partition spec as one: entries that keep their data file are copied as bytes, with their status and numbers written anew.

Without the compiled codec all entries are decoded, and encoded anew.
One manifest with files removed is made the same way. Which manifests are worth merging is kernel.commit's to say.
Spec: Manifests; Sequence Number Inheritance; First Row ID Inheritance.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import AvroFormatError, InvalidInputError, ManifestFormatError
from icefloe.kernel.arrow_values import filled, mask_array, numbers_array, numpy_of, scalar_of
from icefloe.kernel.avro.avro_codec import codec_name
from icefloe.kernel.avro.avro_container import Container, write_records_container
from icefloe.kernel.avro.avro_schema import AvroType, parse_schema, wire_form
from icefloe.kernel.avro.compiled_codec import AVAILABLE
from icefloe.kernel.avro.write_avro_columns import Cut, Records, splice_records, write_records
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.manifest_column_writer import ManifestTarget, encode_columns, header_of, manifest_line
from icefloe.kernel.manifest.manifest_columns import partition_column
from icefloe.kernel.manifest.manifest_reader import open_manifest, read_columns, read_records
from icefloe.kernel.manifest.manifest_schema import SPANS
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile

# Like `map`, perhaps side by side; results come in order.
Parallel = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
# A manifest, its bytes, and which of its entries the commit removes.
_Mask = NDArray[np.bool_] | None
_Given = tuple[ManifestFile, bytes, _Mask]
# Bytes of manifests that are read at a time: what is done to columns costs two milliseconds, however few entries they have.
_BYTES_AT_ONCE = 2 * 1024 * 1024
_NUMBERS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")


def merge_manifests(
    manifests: Iterable[tuple[ManifestFile, bytes]], target: ManifestTarget, *, parallel: Parallel = map, by_compiled: bool = AVAILABLE
) -> tuple[bytes, ManifestFile]:
    """One manifest of the entries of many (each given with its bytes), in order, and its line for the manifest list.

    Entries that the commit itself (`target.snapshot_id`) added or deleted stay so. Others that are live become EXISTING, with the numbers and row ids that
    they have inherited written out; others that were deleted are left out.

    Raises:
        AvroFormatError, ManifestFormatError: a manifest is damaged.
        InvalidInputError: a manifest is of another spec or content than the target, or an entry cannot be written in it.
        InvalidPropertyError: the codec is not known.
    """
    return _joined([(manifest, content, None) for manifest, content in manifests], target, parallel, by_compiled)


def restate_manifest(
    manifest: ManifestFile, content: bytes, removed: NDArray[np.bool_], target: ManifestTarget, *, by_compiled: bool = AVAILABLE
) -> tuple[bytes, ManifestFile]:
    """A manifest again, as `merge_manifests` gives it, where the live entries for which `removed` (one element an entry) is true become DELETED by the commit.

    Raises:
        As `merge_manifests`.
    """
    return _joined([(manifest, content, removed)], target, map, by_compiled)


class _Part(NamedTuple):
    manifest: ManifestFile
    container: Container
    removed: _Mask


def _joined(manifests: list[_Given], target: ManifestTarget, parallel: Parallel, by_compiled: bool) -> tuple[bytes, ManifestFile]:
    if not manifests:
        raise InvalidInputError(f"{target.path} cannot be written: there is no manifest to merge", path=target.path)
    schema_text, metadata = header_of(target)
    parts = [_Part(manifest, open_manifest(content, manifest), removed) for manifest, content, removed in manifests]
    _check_kind(parts, target)
    texts = {part.container.schema_text for part in parts}
    if by_compiled:
        schema_text = _common_schema(texts, schema_text, target) or schema_text
    schema = parse_schema(schema_text.encode())
    fitting = {text for text in texts if by_compiled and _has_form(text, schema)}

    def entries_of(group: list[_Part]) -> list[tuple[Records, Any]]:
        if group[0].container.schema_text not in fitting:
            return [_decoded(part, target, by_compiled) for part in group]
        try:
            return [_copied(group, target, schema)]
        except (AvroFormatError, ManifestFormatError):
            # Which of them is to blame, and whether one is where only all together are too many.
            return [_copied([part], target, schema) for part in group]

    told: list[Any] = []

    def records() -> Iterator[Records]:
        for encoded, entries in chain.from_iterable(parallel(entries_of, _groups(parts))):
            told.append(entries)
            yield encoded

    data = write_records_container(schema_text, metadata, codec_name(target.codec), records())
    return data, manifest_line(pa.concat_tables(told), target, len(data))


def _check_kind(parts: Iterable[_Part], target: ManifestTarget) -> None:
    for manifest, _, _ in parts:
        if (manifest.partition_spec_id, manifest.content) != (target.spec_id, target.content):
            raise InvalidInputError(
                f"{manifest.manifest_path} holds {manifest.content.name} of partition spec {manifest.partition_spec_id}, {target.path} is to "
                f"hold {target.content.name} of partition spec {target.spec_id}",
                path=manifest.manifest_path,
            )


def _groups(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Manifests one after another that have one Avro schema, as many as are read at a time."""
    for _, same in groupby(parts, key=lambda part: part.container.schema_text):
        group: list[_Part] = []
        size = 0
        for part in same:
            size += len(part.container.content)
            if group and size > _BYTES_AT_ONCE:
                yield group
                group, size = [], len(part.container.content)
            group.append(part)
        yield group


def _decoded(part: _Part, target: ManifestTarget, by_compiled: bool) -> tuple[Records, Any]:
    """The entries that stay, encoded anew, and what the manifest list is told about."""
    found = read_columns(part.container.content, part.manifest, target.partition_type, whole=True).entries
    entries = _merged(found, _stays(found, target), [part], [found.num_rows], target)
    return encode_columns(entries, target, by_compiled=by_compiled), _told(entries, target)


def _common_schema(texts: Collection[bytes], ours: str, target: ManifestTarget) -> str | None:
    """The Avro schema of all the manifests, where they have one and it can hold what has to be written: other writers leave out fields that ours has.

    Readers find fields by id, so that a manifest may keep its writer's schema.
    """
    try:
        text = next(iter(texts)).decode() if len(texts) == 1 else ours
        heads = [
            wire_form({**schema, "fields": schema["fields"][:-1]}) for schema in (parse_schema(text.encode()), parse_schema(ours.encode()))
        ]
        last = parse_schema(text.encode())["fields"][-1]
        has_row_ids = any(field.get("field-id") == 142 for field in last["type"]["fields"])
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None  # reading it says what is wrong
    needs_row_ids = target.format_version > 2 and target.content == ManifestContent.DATA
    return text if heads[0] == heads[1] and last.get("field-id") == 2 and (has_row_ids or not needs_row_ids) else None


def _has_form(written: bytes, schema: AvroType) -> bool:
    """Whether entries of the writer's schema have the bytes that ours would have."""
    try:
        return bool(wire_form(parse_schema(written)) == wire_form(schema))
    except (ValueError, TypeError, KeyError, RecursionError):
        return False  # reading it says what is wrong


def _copied(group: Sequence[_Part], target: ManifestTarget, schema: AvroType) -> tuple[Records, Any]:
    """The same by the compiled codec, of manifests whose entries have the bytes that they are to have."""
    manifests, containers = [part.manifest for part in group], [part.container for part in group]
    read = read_records(manifests, containers, target.partition_type)
    found = read.columns.entries
    stays = _stays(found, target)
    entries = _merged(found, stays, group, read.counts, target)

    def positions(field_id: int, edge: str) -> Any:
        return numpy_of(filled(read.spans[f"{SPANS[field_id]}.{edge}"], 0))[stays]

    def pieces(field_ids: tuple[int, ...], names: tuple[str, ...], within: AvroType) -> Records:
        fields = [field for field in within["fields"] if field["field-id"] in field_ids]
        columns = {i: entries[name].combine_chunks() for i, name in zip(field_ids, names, strict=True)}
        return write_records({**within, "fields": fields}, columns, entries.num_rows)

    starts, files, ends = positions(0, "start"), positions(2, "start"), positions(2, "stop")
    cuts = [Cut(starts, files, pieces((0, 1, 3, 4), _NUMBERS, schema))]
    if target.format_version > 2 and target.content == ManifestContent.DATA:
        data_file = schema["fields"][-1]["type"]
        cuts.append(Cut(positions(142, "start"), positions(142, "stop"), pieces((142,), ("first_row_id",), data_file)))
    return splice_records(read.blocks, starts, ends, cuts), _told(entries, target)


def _stays(entries: Any, target: ManifestTarget) -> Any:
    own = numpy_of(filled(entries["snapshot_id"], 0)) == target.snapshot_id
    return own | (numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED))


def _merged(entries: Any, stays: NDArray[np.bool_], group: Sequence[_Part], counts: Sequence[int], target: ManifestTarget) -> Any:
    """The entries that stay, with the status and numbers that they are written with; `counts` has how many of all are of each manifest."""
    kept = entries.filter(mask_array(stays))
    masks = [np.zeros(count, dtype=bool) if part.removed is None else part.removed for part, count in zip(group, counts, strict=True)]
    gone = np.concatenate(masks)[stays]
    statuses = numpy_of(kept["status"])
    added = (statuses == int(ManifestEntryStatus.ADDED)) & (numpy_of(filled(kept["snapshot_id"], 0)) == target.snapshot_id) & ~gone
    deleted = (statuses == int(ManifestEntryStatus.DELETED)) | gone
    written = np.where(added, int(ManifestEntryStatus.ADDED), np.where(deleted, int(ManifestEntryStatus.DELETED), 0)).astype(np.int32)
    no_number = pa.nulls(kept.num_rows, pa.int64())
    # What the commit itself adds inherits its numbers once more; a number of its own that is older than the commit stays.
    of_manifest = np.repeat(np.array([part.manifest.sequence_number for part in group], np.int64), counts)[stays]
    inherited = pc.and_(mask_array(added), pc.equal(kept["sequence_number"], numbers_array(of_manifest, pa.int64())))
    columns = {
        "status": numbers_array(written, pa.int32()),
        "snapshot_id": pc.if_else(mask_array(gone), scalar_of(target.snapshot_id, pa.int64()), kept["snapshot_id"]),
        "sequence_number": pc.if_else(inherited, no_number, kept["sequence_number"]),
        "file_sequence_number": pc.if_else(mask_array(added), no_number, kept["file_sequence_number"]),
        "first_row_id": pc.if_else(mask_array(added), no_number, kept["first_row_id"]),
    }
    for name, values in columns.items():
        kept = kept.set_column(kept.column_names.index(name), kept.schema.field(name), values)
    return kept


def _told(entries: Any, target: ManifestTarget) -> Any:
    names = ["status", "sequence_number", "record_count", *(partition_column(part.field_id) for part in target.partition_type.fields)]
    return entries.select(names)
