"""Merges many manifests of one partition spec into one, and filters a manifest. JAVA: ManifestMergeManager, ManifestFilterManager.

Entries are copied as bytes, with a new status and new numbers. Without the compiled codec, all entries are decoded and encoded again. The package `commit`
chooses the manifests to merge.
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
from icefloe.spec.arrow_values import fill_nulls, mask_array, numbers_array, numpy_of, scalar_of
from icefloe.spec.avro.avro_codec import codec_name
from icefloe.spec.avro.avro_container import Container, write_records_container
from icefloe.spec.avro.avro_schema import AvroType, parse_schema, wire_form
from icefloe.spec.avro.compiled_codec import AVAILABLE
from icefloe.spec.avro.write_avro_columns import Cut, Records, splice_records, write_records
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_column_writer import ManifestTarget, encode_columns, header_of, manifest_file_of
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.manifest.manifest_reader import open_manifest, read_columns, read_records
from icefloe.spec.manifest.manifest_schema import SPANS
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile

# A function like `map` that may work in parallel, and returns the results in order.
Parallel = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
# A mask of the entries of a manifest that the commit removes; None if it removes none.
_Mask = NDArray[np.bool_] | None
# A manifest, its bytes, and the mask of the entries that the commit removes.
_Source = tuple[ManifestFile, bytes, _Mask]
# The bytes of manifests that are read at a time. They are read in groups, because operations on columns take two milliseconds regardless of the number of
# entries.
_BYTES_AT_ONCE = 2 * 1024 * 1024
_NUMBERS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")


def merge_manifests(
    manifests: Iterable[tuple[ManifestFile, bytes]], target: ManifestTarget, *, parallel: Parallel = map, by_compiled: bool = AVAILABLE
) -> tuple[bytes, ManifestFile]:
    """Merge manifests into one manifest with all their entries, in order.

    Entries that this commit (`target.snapshot_id`) added or deleted keep their status. Other live entries become EXISTING, with their inherited numbers and row
    ids written out; other deleted entries are left out.

    Args:
        manifests: Each manifest with its bytes.
        target: The new manifest.
        parallel: Maps a function over groups of manifests, possibly in parallel.
        by_compiled: Use the compiled codec.

    Returns:
        The bytes of the new manifest, and its record for the manifest list.

    Raises:
        AvroFormatError, ManifestFormatError: a manifest is damaged.
        InvalidInputError: a manifest does not have the partition spec or the content of the target, or an entry cannot be written in the target.
        InvalidPropertyError: the codec is unknown.
    """
    return _merge([(manifest, content, None) for manifest, content in manifests], target, parallel, by_compiled)


def filter_manifest(
    manifest: ManifestFile, content: bytes, removed: NDArray[np.bool_], target: ManifestTarget, *, by_compiled: bool = AVAILABLE
) -> tuple[bytes, ManifestFile]:
    """Write a manifest again, with status DELETED for the removed live entries; the other entries are written as by `merge_manifests`.

    Args:
        manifest: The manifest.
        content: Its bytes.
        removed: A mask of the entries to remove.
        target: The new manifest.
        by_compiled: Use the compiled codec.

    Returns:
        The bytes of the new manifest, and its record for the manifest list.

    Raises:
        AvroFormatError, ManifestFormatError, InvalidInputError, InvalidPropertyError: as `merge_manifests`.
    """
    return _merge([(manifest, content, removed)], target, map, by_compiled)


class _OpenManifest(NamedTuple):
    manifest: ManifestFile
    container: Container
    removed: _Mask


def _merge(manifests: list[_Source], target: ManifestTarget, parallel: Parallel, by_compiled: bool) -> tuple[bytes, ManifestFile]:
    if not manifests:
        raise InvalidInputError(f"{target.path} cannot be written: there is no manifest to merge", path=target.path)
    schema_text, metadata = header_of(target)
    parts = [_OpenManifest(manifest, open_manifest(content, manifest), removed) for manifest, content, removed in manifests]
    _check_kind(parts, target)
    texts = {part.container.schema_text for part in parts}
    if by_compiled:
        schema_text = _common_schema(texts, schema_text, target) or schema_text
    schema = parse_schema(schema_text.encode())
    copyable_schemas = {text for text in texts if by_compiled and _has_same_encoding(text, schema)}

    def entries_of(group: list[_OpenManifest]) -> list[tuple[Records, Any]]:
        if group[0].container.schema_text not in copyable_schemas:
            return [_decode_and_encode(part, target, by_compiled) for part in group]
        try:
            return [_copy_entries(group, target, schema)]
        except (AvroFormatError, ManifestFormatError):
            # The manifests are read again one by one, to find the damaged one. There may be none, if only the group as a whole exceeds a limit.
            return [_copy_entries([part], target, schema) for part in group]

    summaries: list[Any] = []

    def records() -> Iterator[Records]:
        for encoded, summary_columns in chain.from_iterable(parallel(entries_of, _groups(parts))):
            summaries.append(summary_columns)
            yield encoded

    data = write_records_container(schema_text, metadata, codec_name(target.codec), records())
    return data, manifest_file_of(pa.concat_tables(summaries), target, len(data))


def _check_kind(parts: Iterable[_OpenManifest], target: ManifestTarget) -> None:
    for manifest, _, _ in parts:
        if (manifest.partition_spec_id, manifest.content) != (target.spec_id, target.content):
            raise InvalidInputError(
                f"{manifest.manifest_path} holds {manifest.content.name} of partition spec {manifest.partition_spec_id}, but {target.path} must "
                f"hold {target.content.name} of partition spec {target.spec_id}",
                path=manifest.manifest_path,
            )


def _groups(parts: Iterable[_OpenManifest]) -> Iterator[list[_OpenManifest]]:
    """Yield groups of consecutive manifests that are read in one call. They have the same Avro schema and at most `_BYTES_AT_ONCE` bytes in total."""
    for _, same_schema in groupby(parts, key=lambda part: part.container.schema_text):
        group: list[_OpenManifest] = []
        size = 0
        for part in same_schema:
            size += len(part.container.content)
            if group and size > _BYTES_AT_ONCE:
                yield group
                group, size = [], len(part.container.content)
            group.append(part)
        yield group


def _decode_and_encode(part: _OpenManifest, target: ManifestTarget, by_compiled: bool) -> tuple[Records, Any]:
    """Decode the remaining entries of a manifest, and encode them again. Return them with the columns from which the manifest list's record is computed."""
    old_entries = read_columns(part.container.content, part.manifest, target.partition_type, whole=True).entries
    entries = _merge_columns(old_entries, _is_remaining(old_entries, target), [part], [old_entries.num_rows], target)
    return encode_columns(entries, target, by_compiled=by_compiled), _summary_columns(entries, target)


def _common_schema(texts: Collection[bytes], own_schema: str, target: ManifestTarget) -> str | None:
    """Return the Avro schema that all the manifests have, if they have the same and it fits the new manifest; else None.

    Readers find fields by id, so the new manifest may have the schema of another writer, which leaves out fields that Icefloe writes.
    """
    try:
        text = next(iter(texts)).decode() if len(texts) == 1 else own_schema
        schemas = (parse_schema(text.encode()), parse_schema(own_schema.encode()))
        heads = [wire_form({**schema, "fields": schema["fields"][:-1]}) for schema in schemas]
        last = parse_schema(text.encode())["fields"][-1]
        has_row_ids = any(field.get("field-id") == 142 for field in last["type"]["fields"])
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None  # reading the manifest reports the problem
    needs_row_ids = target.format_version > 2 and target.content == ManifestContent.DATA
    return text if heads[0] == heads[1] and last.get("field-id") == 2 and (has_row_ids or not needs_row_ids) else None


def _has_same_encoding(schema_text: bytes, schema: AvroType) -> bool:
    """Return True if entries encoded with the writer's schema have the same bytes as with the schema of the new manifest."""
    try:
        return bool(wire_form(parse_schema(schema_text)) == wire_form(schema))
    except (ValueError, TypeError, KeyError, RecursionError):
        return False  # reading the manifest reports the problem


def _copy_entries(group: Sequence[_OpenManifest], target: ManifestTarget, schema: AvroType) -> tuple[Records, Any]:
    """Copy the bytes of the remaining entries of several manifests, with the compiled codec. Return the same as `_decode_and_encode`."""
    manifests, containers = [part.manifest for part in group], [part.container for part in group]
    old_records = read_records(manifests, containers, target.partition_type)
    old_entries = old_records.columns.entries
    remaining = _is_remaining(old_entries, target)
    entries = _merge_columns(old_entries, remaining, group, old_records.counts, target)

    def positions(field_id: int, edge: str) -> Any:
        return numpy_of(fill_nulls(old_records.spans[f"{SPANS[field_id]}.{edge}"], 0))[remaining]

    def pieces(field_ids: tuple[int, ...], names: tuple[str, ...], within: AvroType) -> Records:
        fields = [field for field in within["fields"] if field["field-id"] in field_ids]
        columns = {i: entries[name].combine_chunks() for i, name in zip(field_ids, names, strict=True)}
        return write_records({**within, "fields": fields}, columns, entries.num_rows)

    starts, files, ends = positions(0, "start"), positions(2, "start"), positions(2, "stop")
    cuts = [Cut(starts, files, pieces((0, 1, 3, 4), _NUMBERS, schema))]
    if target.format_version > 2 and target.content == ManifestContent.DATA:
        data_file = schema["fields"][-1]["type"]
        cuts.append(Cut(positions(142, "start"), positions(142, "stop"), pieces((142,), ("first_row_id",), data_file)))
    return splice_records(old_records.blocks, starts, ends, cuts), _summary_columns(entries, target)


def _is_remaining(entries: Any, target: ManifestTarget) -> Any:
    of_this_commit = numpy_of(fill_nulls(entries["snapshot_id"], 0)) == target.snapshot_id
    return of_this_commit | (numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED))


def _merge_columns(
    entries: Any, is_remaining: NDArray[np.bool_], group: Sequence[_OpenManifest], counts: Sequence[int], target: ManifestTarget
) -> Any:
    """Return the remaining entries with the status and the numbers to write. `counts` has for each manifest the number of all its entries."""
    remaining = entries.filter(mask_array(is_remaining))
    masks = [np.zeros(count, dtype=bool) if part.removed is None else part.removed for part, count in zip(group, counts, strict=True)]
    removed = np.concatenate(masks)[is_remaining]
    statuses = numpy_of(remaining["status"])
    of_this_commit = numpy_of(fill_nulls(remaining["snapshot_id"], 0)) == target.snapshot_id
    added = (statuses == int(ManifestEntryStatus.ADDED)) & of_this_commit & ~removed
    deleted = (statuses == int(ManifestEntryStatus.DELETED)) | removed
    new_statuses = np.where(added, int(ManifestEntryStatus.ADDED), np.where(deleted, int(ManifestEntryStatus.DELETED), 0)).astype(np.int32)
    no_number = pa.nulls(remaining.num_rows, pa.int64())
    # Entries that this commit added inherit their numbers again, except explicit numbers, which are older than the commit and are kept.
    of_manifest = np.repeat(np.array([part.manifest.sequence_number for part in group], np.int64), counts)[is_remaining]
    inherited = pc.and_(mask_array(added), pc.equal(remaining["sequence_number"], numbers_array(of_manifest, pa.int64())))
    columns = {
        "status": numbers_array(new_statuses, pa.int32()),
        "snapshot_id": pc.if_else(mask_array(removed), scalar_of(target.snapshot_id, pa.int64()), remaining["snapshot_id"]),
        "sequence_number": pc.if_else(inherited, no_number, remaining["sequence_number"]),
        "file_sequence_number": pc.if_else(mask_array(added), no_number, remaining["file_sequence_number"]),
        "first_row_id": pc.if_else(mask_array(added), no_number, remaining["first_row_id"]),
    }
    for name, values in columns.items():
        remaining = remaining.set_column(remaining.column_names.index(name), remaining.schema.field(name), values)
    return remaining


def _summary_columns(entries: Any, target: ManifestTarget) -> Any:
    names = ["status", "sequence_number", "record_count", *(partition_column(part.field_id) for part in target.partition_type.fields)]
    return entries.select(names)
