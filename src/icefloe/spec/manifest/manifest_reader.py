"""The reader of manifests. It reads entries as columns, for scan planning, or as objects, for callers that use every entry.

The package `scan` prunes the columns. Spec: Manifests; Sequence Number Inheritance; First Row ID Inheritance.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import AvroFormatError, ManifestFormatError, Problem
from icefloe.spec.arrow_values import MALLOC, fill_nulls, mask_array, numpy_of
from icefloe.spec.avro.avro_columns import read_arrays, read_batches, read_spans
from icefloe.spec.avro.avro_container import Container, open_container
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.inheritance import (
    Origin,
    first_row_id_reader,
    inherit_first_row_ids,
    inherit_sequence_numbers,
    inherit_snapshot_ids,
    inherited_sequence_number,
)
from icefloe.spec.manifest.manifest_columns import (
    DELETE_FIELDS,
    ENTRY_FIELDS,
    STATISTICS,
    WHOLE_FIELDS,
    WHOLE_NAMES,
    ManifestColumns,
    Statistic,
    partition_column,
    statistic_field,
)
from icefloe.spec.manifest.manifest_length import check_length
from icefloe.spec.manifest.manifest_schema import COUNT_PROJECTION, projected_columns, projected_entries, projected_spans
from icefloe.spec.manifest.partition_values import convert_values, primitive, typed_array, untyped_array, value_reader
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.partitioning.partition_spec import UntypedPartition
from icefloe.spec.tolerance import Deviation, Tolerance
from icefloe.spec.types import StructType
from icefloe.spec.values import physical_arrow_type

_REQUIRED = tuple(field.name for field in ENTRY_FIELDS if not field.nullable and field.name != "content")
_STATUSES = {int(status): status for status in ManifestEntryStatus}
_CONTENTS: dict[int | None, FileContent] = {None: FileContent.DATA, **{int(content): content for content in FileContent}}
_FORMATS = {file_format.value: file_format for file_format in FileFormat}


def read_columns(
    content: bytes,
    manifest: ManifestFile,
    partition_type: StructType,
    *,
    statistics: Collection[Statistic] = (),
    whole: bool = False,
    only: Collection[str] = WHOLE_NAMES,
) -> ManifestColumns:
    """Return the entries of a manifest as columns, in file order, with inherited numbers.

    Args:
        content: The manifest's bytes.
        manifest: Its record in the manifest list.
        partition_type: Type of its partition tuples.
        statistics: Statistics of table columns to return as columns, such as ("lower_bound", 3).
        whole: Whether to return the columns of `WHOLE_FIELDS` instead of statistics, so that `write_manifest_columns` can write the entries again.
        only: The columns of `WHOLE_FIELDS` to return. Others are not decoded; these columns are the largest part of a manifest.

    Raises:
        AvroFormatError: the file is damaged; the error names it and the byte.
        ManifestFormatError: a required value is null, a value does not fit its type, or the number of entries differs from the manifest list.
    """
    return _read([manifest], lambda _: content, partition_type, statistics, frozenset(only) if whole else None)[0]


class DecodedRows(NamedTuple):
    """The rows of one manifest: those from `start` to before `stop` of `table`, which has the columns of `ManifestColumns.entries`."""

    table: Any
    start: int
    stop: int


# A function that decodes manifests with some statistics. It returns the entries of all as one table, and the number of entries of each.
DecodeManifests = Callable[[Sequence[ManifestFile], frozenset[Statistic]], tuple[Any, Sequence[int]]]


class ManifestColumnsCache(Protocol):
    """A cache of decoded manifests. It must not return entries of a manifest to a user who may not read the manifest."""

    def rows(
        self, manifests: Sequence[ManifestFile], partition_type: StructType, statistics: frozenset[Statistic], decode: DecodeManifests
    ) -> Sequence[DecodedRows]:
        """Return the rows of each manifest, in order, with at least these statistics. `decode` is called for manifests that are not in the cache."""

    def undecoded_length(self, manifests: Sequence[ManifestFile], partition_type: StructType, statistics: frozenset[Statistic]) -> int:
        """Return the total length in bytes of the manifests that are not in the cache with these statistics."""


def read_many_columns(
    manifests: Sequence[ManifestFile],
    read: Callable[[str], bytes],
    partition_type: StructType,
    *,
    statistics: Collection[Statistic] = (),
    cache: ManifestColumnsCache | None = None,
    tolerance: Tolerance = Tolerance.DEFAULT,
) -> tuple[ManifestColumns, Sequence[int]]:
    """Read manifests as `read_columns` does, and return the entries of all of them in one table.

    Operations on columns take a millisecond regardless of the number of entries; here they run once for all manifests.

    Args:
        manifests: Their records in the manifest list. All have the same partition spec and content (data or deletes).
        read: Returns the content of the file at a location.
        partition_type: Type of their partition tuples.
        statistics: As in `read_columns`.
        cache: A cache of decoded manifests. It is used only with the default tolerance.
        tolerance: Which violations of the format are accepted with a warning.

    Returns:
        The entries, in the order of the manifests; and the number of entries of each manifest.

    Raises:
        AvroFormatError, ManifestFormatError: as `read_columns`; and the errors of `read`.
    """
    if cache is None or tolerance is not Tolerance.DEFAULT:
        entries, counts = _read_together(manifests, read, partition_type, statistics, tolerance)
        return ManifestColumns(entries), counts
    cached_rows = cache.rows(
        manifests,
        partition_type,
        frozenset(statistics),
        lambda missing, decoded: _read_together(missing, read, partition_type, decoded, tolerance),
    )
    names = _column_names(partition_type, manifests[0].content, frozenset(statistics))
    return ManifestColumns(_join_rows(cached_rows, names)), [rows.stop - rows.start for rows in cached_rows]


def columns_schema(partition_type: StructType, content: ManifestContent, statistics: Collection[Statistic]) -> Any:
    """Return the Arrow schema of the entries that `read_many_columns` reads."""
    return _arrow_schema(partition_type, content, statistics, None)


@lru_cache(maxsize=256)
def _column_names(partition_type: StructType, content: ManifestContent, statistics: frozenset[Statistic]) -> Sequence[str]:
    return tuple(columns_schema(partition_type, content, statistics).names)


def _join_rows(decoded_rows: Sequence[DecodedRows], names: Sequence[str]) -> Any:
    """Return all rows as one table with these columns. Rows that are adjacent in the same table become one slice of it."""
    slices: list[DecodedRows] = []
    for rows in decoded_rows:
        if slices and slices[-1].table is rows.table and slices[-1].stop == rows.start:
            slices[-1] = DecodedRows(rows.table, slices[-1].start, rows.stop)
        else:
            slices.append(rows)
    return pa.concat_tables([rows.table.select(list(names)).slice(rows.start, rows.stop - rows.start) for rows in slices])


def _read_together(
    manifests: Sequence[ManifestFile],
    read: Callable[[str], bytes],
    partition_type: StructType,
    statistics: Collection[Statistic],
    tolerance: Tolerance,
) -> tuple[Any, Sequence[int]]:
    try:
        columns, counts = _read(manifests, read, partition_type, statistics, None, tolerance)
        return columns.entries, counts
    except (AvroFormatError, ManifestFormatError):
        # The manifests are read again one by one, to find the damaged one. There may be none, if only all of them together exceed a limit.
        parts = [_read([manifest], read, partition_type, statistics, None, tolerance) for manifest in manifests]
    return pa.concat_tables([columns.entries for columns, _ in parts]), [count for _, counts in parts for count in counts]


class LiveEntries(NamedTuple):
    """The live entries of some manifests as a `ManifestColumns` table, and for each entry the index of its manifest."""

    entries: Any
    places: NDArray[np.int64]


def read_live_entries(
    manifests: Sequence[ManifestFile],
    read: Callable[[str], bytes],
    partition_type: StructType,
    *,
    statistics: Collection[Statistic] = (),
    added_in: AbstractSet[int] | None = None,
    cache: ManifestColumnsCache | None = None,
    tolerance: Tolerance = Tolerance.DEFAULT,
) -> LiveEntries:
    """Return the live entries of manifests of one partition spec and content.

    Args:
        manifests: The manifests, at least one.
        read: Returns the content of a file.
        partition_type: Type of their partition tuples.
        statistics: The column statistics to decode.
        added_in: Return only the entries that one of these snapshots added; None for all live entries.
        cache: A cache of decoded manifests, to which newly decoded ones are added; or None.
        tolerance: Which deviations of the manifests from their manifest list are accepted.

    Raises:
        AvroFormatError: A manifest is damaged.
        ManifestFormatError: An entry violates the format, or the content of a manifest differs from that in its manifest list.
    """
    columns, counts = read_many_columns(manifests, read, partition_type, statistics=statistics, cache=cache, tolerance=tolerance)
    entries, places = columns.entries, np.repeat(np.arange(len(counts)), counts)
    if added_in is not None:
        ids = pa.array(added_in, pa.int64())
        live = (numpy_of(entries["status"]) == int(ManifestEntryStatus.ADDED)) & pc.is_in(entries["snapshot_id"], ids).to_numpy()
        entries, places = entries.filter(mask_array(live)), places[live]
    else:  # even if the manifest list counts none
        live = numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED)
        if not live.all():
            entries, places = entries.filter(mask_array(live)), places[live]
    _check_content(entries, manifests, places)
    return LiveEntries(entries, places)


def _check_content(entries: Any, manifests: Sequence[ManifestFile], places: NDArray[np.int64]) -> None:
    is_data = manifests[0].content is ManifestContent.DATA
    other_content = (numpy_of(entries["content"]) == int(FileContent.DATA)) != is_data
    if not other_content.any():
        return
    manifest = manifests[int(places[other_content][0])]
    actual, declared = ("delete files", "data files") if is_data else ("data files", "delete files")
    raise ManifestFormatError(
        f"manifest {manifest.manifest_path} contains {actual}, but its manifest list declares {declared}",
        path=manifest.manifest_path,
        next_step="the manifest or its manifest list is damaged; restore it from a copy, or roll the table back to an older snapshot",
    )


def _read(
    manifests: Sequence[ManifestFile],
    read: Callable[[str], bytes],
    partition_type: StructType,
    statistics: Collection[Statistic],
    whole: frozenset[str] | None,
    tolerance: Tolerance = Tolerance.DEFAULT,
) -> tuple[ManifestColumns, Sequence[int]]:
    """Read the entries of manifests into one table. Return it with the number of entries of each manifest."""
    first = manifests[0]
    projection = projected_columns(partition_type, first.content, statistics) if whole is None else projected_entries(partition_type, whole)
    schema = _arrow_schema(partition_type, first.content, statistics, whole)
    counts: list[int] = []
    tolerances: list[Tolerance] = []

    def open_each() -> Iterator[Container]:
        for manifest in manifests:
            content = read(manifest.manifest_path)
            tolerances.append(_tolerance_of(content, manifest, tolerance))
            yield open_manifest(content, manifest)

    try:
        tables = [_table(columns, schema, partition_type, first) for columns in read_arrays(open_each(), projection, counts=counts)]
        entries = pa.concat_tables(tables) if tables else schema.empty_table()
        origin = Origin(manifests, counts)
        _check_entries(entries, origin, tolerances)
        return ManifestColumns(_inherit_values(entries, origin)), counts
    except ManifestFormatError:
        # An error about a joined column names the first manifest. Reading each by itself finds the one that has the value.
        for manifest in manifests if len(manifests) > 1 else ():
            _read([manifest], read, partition_type, statistics, whole, tolerance)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRecords:
    """The encoded entries of manifests, and the same entries as columns.

    Attributes:
        blocks: The encoded entries, one after another.
        counts: Number of entries of each manifest.
        columns: The entries as columns.
        spans: For each entry the start of its status, and the start and end of its data file and of its first row id: int64 positions over all blocks, by the
            names of `manifest_schema.SPANS`; null for a first row id that the writer does not have.
    """

    blocks: Sequence[bytes]
    counts: Sequence[int]
    columns: ManifestColumns
    spans: Mapping[str, Any]


def read_records(manifests: Sequence[ManifestFile], containers: Sequence[Container], partition_type: StructType) -> ManifestRecords:
    """Read the parts of manifests that are needed to copy their entries without decoding them completely, with the compiled codec.

    Args:
        manifests: At least one manifest, all of one partition spec, content and Avro schema.
        containers: For each manifest the result of `open_manifest`.
        partition_type: Type of their partition tuples.

    Raises:
        AvroFormatError, ManifestFormatError: as `read_columns`, for all manifests together.
    """
    first = manifests[0]
    schema = _arrow_schema(partition_type, first.content, (), None)
    encoded = read_spans(containers, projected_spans(partition_type, first.content))
    try:
        entries = _table(encoded.columns, schema, partition_type, first)
        origin = Origin(manifests, encoded.counts)
        _check_entries(entries, origin, [Tolerance.DEFAULT] * len(manifests))
        return ManifestRecords(
            blocks=encoded.blocks, counts=encoded.counts, columns=ManifestColumns(_inherit_values(entries, origin)), spans=encoded.columns
        )
    except ManifestFormatError:
        for manifest, container in zip(manifests, containers, strict=True) if len(manifests) > 1 else ():  # as in `_read`
            read_records([manifest], [container], partition_type)
        raise


def _table(columns: dict[str, Any], schema: Any, partition_type: StructType, manifest: ManifestFile) -> Any:
    """Convert the columns of the Avro reader to the types of the schema."""
    untyped = [partition_column(part.field_id) for part in partition_type.fields if isinstance(part, UntypedPartition)]
    columns |= {name: untyped_array(columns[name]) for name in untyped}
    return pa.Table.from_arrays([_cast_column(columns[field.name], field, manifest) for field in schema], schema=schema)


def open_manifest(content: bytes, manifest: ManifestFile) -> Container:
    """Return the Avro container of a manifest. Warn if the manifest list has a wrong length.

    Raises:
        AvroFormatError: the manifest is damaged or was cut short.
    """
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    check_length(content, manifest.manifest_path, manifest.manifest_length, counts)
    return open_container(content, manifest.manifest_path)


def _tolerance_of(content: bytes, manifest: ManifestFile, tolerance: Tolerance) -> Tolerance:
    """Return the tolerance for wrong counts of a manifest. If its length is wrong too, wrong counts are not tolerated: only they show that it is complete."""
    return tolerance if len(content) == manifest.manifest_length else Tolerance.DEFAULT


def _arrow_schema(
    partition_type: StructType, content: ManifestContent, statistics: Collection[Statistic], whole: frozenset[str] | None
) -> Any:
    fields = [*ENTRY_FIELDS, *(DELETE_FIELDS if content == ManifestContent.DELETES or whole is not None else ())]
    fields += [pa.field(partition_column(part.field_id), physical_arrow_type(primitive(part.field_type))) for part in partition_type.fields]
    if whole is not None:
        return pa.schema([*fields, *(field for field in WHOLE_FIELDS if field.name in whole)])
    for field_id in sorted({field_id for _, field_id in statistics}):
        for statistic in (name for name in STATISTICS.values() if (name, field_id) in statistics):
            fields.append(statistic_field(statistic, field_id))
    return pa.schema(fields)


def _cast_column(array: Any, field: Any, manifest: ManifestFile) -> Any:
    """Convert a column from the writer's type to the type of the field."""
    try:
        typed = typed_array(array, field.type)
    except pa.ArrowException as error:
        raise _refuse(manifest, field.name, f"a value does not fit {field.type}: {error}") from error
    if field.name == "content":
        return fill_nulls(typed, int(FileContent.DATA))
    if field.name == "file_format":
        return pc.utf8_upper(typed, memory_pool=MALLOC)
    return typed


def _refuse(manifest: ManifestFile, where: str, what: str) -> ManifestFormatError:
    path = manifest.manifest_path
    return ManifestFormatError(f"the manifest {path} violates a rule of the format", path=path, problems=(Problem(where=where, what=what),))


def _check_entries(entries: Any, origin: Origin, tolerances: Sequence[Tolerance]) -> None:
    for name in _REQUIRED:
        if entries[name].null_count:
            raise _refuse(origin.manifests[0], name, f"is null in {entries[name].null_count} entries")
    statuses = numpy_of(entries["status"])
    for (manifest, rows), tolerance in zip(origin.slices(), tolerances, strict=True):
        values, counts = np.unique(statuses[rows], return_counts=True)
        _check_counts(dict(zip(values.tolist(), counts.tolist(), strict=True)), manifest, tolerance)


def _check_counts(counts: dict[int, int], manifest: ManifestFile, tolerance: Tolerance = Tolerance.DEFAULT) -> None:
    """Compare the numbers of entries by status with the counts in the manifest list, which are None in some version 1 tables.

    Row counts are not compared, because they do not affect which files are read.
    """
    unknown = sorted(set(counts) - set(_STATUSES))
    if unknown:
        raise _refuse(manifest, "status", f"is {unknown[0]}; it must be 0 (existing), 1 (added) or 2 (deleted)")
    expected_counts = (
        (ManifestEntryStatus.ADDED, manifest.added_files_count),
        (ManifestEntryStatus.EXISTING, manifest.existing_files_count),
        (ManifestEntryStatus.DELETED, manifest.deleted_files_count),
    )
    for status, expected in expected_counts:
        actual = counts.get(int(status), 0)
        if expected is not None and expected != actual:
            what = f"{actual} entries are {status.name}, the manifest list counts {expected}"
            message = f"of the manifest {manifest.manifest_path} {what}; it is read, since it has the stated length"
            tolerance.accept(Deviation.MANIFEST_FILE_COUNT, message, _refuse(manifest, "status", what))


def _inherit_values(entries: Any, origin: Origin) -> Any:
    statuses = entries["status"]
    numbers = {"snapshot_id": inherit_snapshot_ids(entries["snapshot_id"], origin)}
    own, of_file = entries["sequence_number"], entries["file_sequence_number"]
    numbers["sequence_number"] = inherit_sequence_numbers(statuses, own, origin)
    # If all entries inherit both sequence numbers, the same array is used for both.
    all_inherit = own.null_count == of_file.null_count == len(entries)
    numbers["file_sequence_number"] = numbers["sequence_number"] if all_inherit else inherit_sequence_numbers(statuses, of_file, origin)
    try:
        numbers["first_row_id"] = inherit_first_row_ids(statuses, entries["record_count"], entries["first_row_id"], origin)
    except pa.ArrowInvalid as error:
        raise _refuse(origin.manifests[0], "record_count", f"the sum of all entries exceeds the range of row ids: {error}") from error
    return pa.Table.from_arrays([numbers.get(field.name, entries[field.name]) for field in entries.schema], schema=entries.schema)


def read_entries(content: bytes, manifest: ManifestFile, partition_type: StructType) -> list[ManifestEntry]:
    """Return every entry as an object, in file order, with all statistics and inherited numbers. An entry of 20 columns takes about 50 microseconds.

    Raises:
        AvroFormatError, ManifestFormatError: as `read_columns`.
    """
    entries: list[ManifestEntry] = []
    readers = [(partition_column(part.field_id), value_reader(part)) for part in partition_type.fields]
    first_row_id = first_row_id_reader(manifest)
    for batch in read_batches(open_manifest(content, manifest), projected_entries(partition_type)):
        for name in _REQUIRED:
            if None in batch[name]:
                raise _refuse(manifest, name, f"is null in entry {len(entries) + batch[name].index(None)}")
        try:
            partitions = [convert_values(read, batch.pop(name)) for name, read in readers]
            tuples: Iterator[tuple[Any, ...]] = zip(*partitions, strict=True) if partitions else iter([()] * len(batch["status"]))
            paths = [str(path, "utf-8") for path in batch.pop("file_path")]
            entries += _entries(batch, paths, tuples, manifest, first_row_id)
        except (TypeError, ValueError, KeyError) as error:
            raise _refuse(manifest, f"entries {len(entries)} and after", f"a value does not fit its type: {error!r}") from error
    counts: dict[int, int] = {}
    for entry in entries:
        counts[int(entry.status)] = counts.get(int(entry.status), 0) + 1
    _check_counts(counts, manifest)
    return entries


def _entries(
    batch: dict[str, list[Any]],
    paths: list[str],
    partitions: Iterator[tuple[Any, ...]],
    manifest: ManifestFile,
    first_row_id: Callable[[int, int, int | None], int | None],
) -> Iterator[ManifestEntry]:
    formats = {raw: _FORMATS[str(raw, "utf-8").upper()] for raw in set(batch["file_format"])}
    names = tuple(name for name in batch if name not in ("status", "snapshot_id", "sequence_number", "file_sequence_number"))
    rows = zip(*(batch[name] for name in names), strict=True)
    heads = zip(batch["status"], batch["snapshot_id"], batch["sequence_number"], batch["file_sequence_number"], strict=True)
    for (status, snapshot_id, number, file_number), path, partition, row in zip(heads, paths, partitions, rows, strict=True):
        fields = dict(zip(names, row, strict=True))
        fields["content"] = _CONTENTS[fields["content"]]
        fields["file_format"] = formats[fields["file_format"]]
        fields["first_row_id"] = first_row_id(status, fields["record_count"], fields["first_row_id"])
        if fields["referenced_data_file"] is not None:
            fields["referenced_data_file"] = str(fields["referenced_data_file"], "utf-8")
        data_file = DataFile(file_path=path, partition=partition, spec_id=manifest.partition_spec_id, **fields)
        yield ManifestEntry(
            _STATUSES[status],
            manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
            inherited_sequence_number(status, number, manifest),
            inherited_sequence_number(status, file_number, manifest),
            data_file,
        )


def fill_counts(content: bytes, manifest: ManifestFile) -> ManifestFile:
    """Return the manifest with all counts. Counts that an old version 1 manifest list lacks are computed from the entries.

    Raises:
        AvroFormatError, ManifestFormatError: as `read_columns`.
    """
    if None not in (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count) and None not in (
        manifest.added_rows_count,
        manifest.existing_rows_count,
        manifest.deleted_rows_count,
    ):
        return manifest
    files = dict.fromkeys(_STATUSES, 0)
    rows = dict.fromkeys(_STATUSES, 0)
    for batch in read_batches(open_manifest(content, manifest), COUNT_PROJECTION):
        for status, records in zip(batch["status"], batch["record_count"], strict=True):
            if status not in files or records is None:
                raise _refuse(manifest, "status" if records is not None else "record_count", "is not a value that the format defines")
            files[status] += 1
            rows[status] += records
    _check_counts(files, manifest)
    return replace(
        manifest,
        added_files_count=files[ManifestEntryStatus.ADDED],
        existing_files_count=files[ManifestEntryStatus.EXISTING],
        deleted_files_count=files[ManifestEntryStatus.DELETED],
        added_rows_count=rows[ManifestEntryStatus.ADDED],
        existing_rows_count=rows[ManifestEntryStatus.EXISTING],
        deleted_rows_count=rows[ManifestEntryStatus.DELETED],
    )


def read_manifest_header(content: bytes, path: str) -> dict[str, str]:
    """Return the key-value metadata of a manifest or manifest list as text: `schema`, `partition-spec`, `format-version`, `content`, `avro.schema`...

    Raises:
        AvroFormatError: the file is not Avro, or its header is cut short.
    """
    return {key: value.decode("utf-8", "replace") for key, value in open_container(content, path).metadata.items()}
