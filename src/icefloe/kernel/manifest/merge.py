"""Many manifests of one partition spec as one: entries that keep their data file are copied as bytes, with their status and numbers written anew.

One manifest with files removed is made the same way. Which manifests are worth merging is kernel.commit's to say.
Floor: kernel.manifest. Spec: Manifests; Sequence Number Inheritance; First Row ID Inheritance.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import InvalidInputError
from icefloe.kernel.arrow_values import filled, mask_array, numbers_array, numpy_of, scalar_of
from icefloe.kernel.avro.codec import codec_name
from icefloe.kernel.avro.compiled import AVAILABLE
from icefloe.kernel.avro.container import open_container, write_records_container
from icefloe.kernel.avro.schema import AvroType, parse_schema, wire_form
from icefloe.kernel.avro.write_columns import Cut, Records, splice_records, write_records
from icefloe.kernel.manifest.columns import partition_column
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.read import read_columns, read_records
from icefloe.kernel.manifest.schema import SPANS
from icefloe.kernel.manifest.write_columns import ManifestTarget, encode_columns, header_of, manifest_line
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile

# Like `map`, perhaps side by side; results come in order.
Parallel = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
# A manifest, its bytes, and which of its entries the commit removes.
_Mask = NDArray[np.bool_] | None
_Given = tuple[ManifestFile, bytes, _Mask]
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


def _joined(manifests: list[_Given], target: ManifestTarget, parallel: Parallel, by_compiled: bool) -> tuple[bytes, ManifestFile]:
    schema_text, metadata = header_of(target)
    schema_text = _common_schema(manifests, schema_text, target) or schema_text
    schema = parse_schema(schema_text.encode())

    def entries_of(given: _Given) -> tuple[Records, Any]:
        return _entries(*given, target, schema, by_compiled)

    told: list[Any] = []

    def records() -> Iterator[Records]:
        for encoded, entries in parallel(entries_of, manifests):
            told.append(entries)
            yield encoded

    if not manifests:
        raise InvalidInputError(f"{target.path} cannot be written: there is no manifest to merge", path=target.path)
    data = write_records_container(schema_text, metadata, codec_name(target.codec), records())
    return data, manifest_line(pa.concat_tables(told), target, len(data))


def _entries(
    manifest: ManifestFile, content: bytes, removed: _Mask, target: ManifestTarget, schema: AvroType, by_compiled: bool
) -> tuple[Records, Any]:
    """The entries that stay, encoded, and what the manifest list is told about."""
    if (manifest.partition_spec_id, manifest.content) != (target.spec_id, target.content):
        raise InvalidInputError(
            f"{manifest.manifest_path} holds {manifest.content.name} of partition spec {manifest.partition_spec_id}, {target.path} is to hold "
            f"{target.content.name} of partition spec {target.spec_id}",
            path=manifest.manifest_path,
        )
    if _has_form(content, manifest, schema):
        return _copied(manifest, content, removed, target, schema, by_compiled)
    found = read_columns(content, manifest, target.partition_type, whole=True).entries
    entries = _merged(found, removed, manifest, target)
    return encode_columns(entries, target, by_compiled=by_compiled), _told(entries, target)


def _common_schema(manifests: Iterable[_Given], ours: str, target: ManifestTarget) -> str | None:
    """The Avro schema of all the manifests, where they have one and it can hold what has to be written: other writers leave out fields that ours has.

    Readers find fields by id, so that a manifest may keep its writer's schema.
    """
    texts = {open_container(content, manifest.manifest_path).schema_text for manifest, content, _ in manifests}
    try:
        text = texts.pop().decode() if len(texts) == 1 else ours
        heads = [
            wire_form({**schema, "fields": schema["fields"][:-1]}) for schema in (parse_schema(text.encode()), parse_schema(ours.encode()))
        ]
        last = parse_schema(text.encode())["fields"][-1]
        has_row_ids = any(field.get("field-id") == 142 for field in last["type"]["fields"])
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None  # reading it says what is wrong
    needs_row_ids = target.format_version > 2 and target.content == ManifestContent.DATA
    return text if heads[0] == heads[1] and last.get("field-id") == 2 and (has_row_ids or not needs_row_ids) else None


def _has_form(content: bytes, manifest: ManifestFile, schema: AvroType) -> bool:
    """Whether the writer's entries have the bytes that ours would have."""
    written = open_container(content, manifest.manifest_path).schema_text
    try:
        return bool(wire_form(parse_schema(written)) == wire_form(schema))
    except (ValueError, TypeError, KeyError, RecursionError):
        return False  # reading it says what is wrong


def _copied(
    manifest: ManifestFile, content: bytes, removed: _Mask, target: ManifestTarget, schema: AvroType, by_compiled: bool
) -> tuple[Records, Any]:
    read = read_records(content, manifest, target.partition_type, by_compiled=by_compiled)
    found = read.columns.entries
    stays = _stays(found, target)
    entries = _merged(found, removed, manifest, target)

    def positions(field_id: int, edge: str) -> Any:
        return numpy_of(filled(read.spans[f"{SPANS[field_id]}.{edge}"], 0))[stays]

    def pieces(field_ids: tuple[int, ...], names: tuple[str, ...], within: AvroType) -> Records:
        fields = [field for field in within["fields"] if field["field-id"] in field_ids]
        columns = {i: entries[name].combine_chunks() for i, name in zip(field_ids, names, strict=True)}
        return write_records({**within, "fields": fields}, columns, entries.num_rows, by_compiled=by_compiled)

    starts, files, ends = positions(0, "start"), positions(2, "start"), positions(2, "stop")
    cuts = [Cut(starts, files, pieces((0, 1, 3, 4), _NUMBERS, schema))]
    if target.format_version > 2 and target.content == ManifestContent.DATA:
        data_file = schema["fields"][-1]["type"]
        cuts.append(Cut(positions(142, "start"), positions(142, "stop"), pieces((142,), ("first_row_id",), data_file)))
    return splice_records(read.data, starts, ends, cuts, by_compiled=by_compiled), _told(entries, target)


def _stays(entries: Any, target: ManifestTarget) -> Any:
    own = numpy_of(filled(entries["snapshot_id"], 0)) == target.snapshot_id
    return own | (numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED))


def _merged(entries: Any, removed: _Mask, manifest: ManifestFile, target: ManifestTarget) -> Any:
    """The entries that stay, with the status and numbers that they are written with."""
    stays = _stays(entries, target)
    kept = entries.filter(mask_array(stays))
    gone = np.zeros(kept.num_rows, dtype=bool) if removed is None else removed[stays]
    statuses = numpy_of(kept["status"])
    added = (statuses == int(ManifestEntryStatus.ADDED)) & (numpy_of(filled(kept["snapshot_id"], 0)) == target.snapshot_id) & ~gone
    deleted = (statuses == int(ManifestEntryStatus.DELETED)) | gone
    written = np.where(added, int(ManifestEntryStatus.ADDED), np.where(deleted, int(ManifestEntryStatus.DELETED), 0)).astype(np.int32)
    no_number = pa.nulls(kept.num_rows, pa.int64())
    # What the commit itself adds inherits its numbers once more; a number of its own that is older than the commit stays.
    inherited = pc.and_(mask_array(added), pc.equal(kept["sequence_number"], scalar_of(manifest.sequence_number, pa.int64())))
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
