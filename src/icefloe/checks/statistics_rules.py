"""Rules of statistics files: each exists, has the stated sizes, and has the blobs or rows that the metadata file describes.

Spec: Table Statistics; Partition Statistics; Puffin file format.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.checks.data_file_rules import READ_ERRORS, TableLayout, open_by_format
from icefloe.checks.finding import Finding, Severity
from icefloe.checks.manifest_check import unreadable
from icefloe.checks.rule import Depth, FindingPlace, Level, RuleGroup, value_text
from icefloe.checks.table_content import TableContent
from icefloe.datafile.field_ids import has_ids
from icefloe.datafile.projection import columns_by_id, file_columns
from icefloe.datafile.stored_batch import decode_dictionaries
from icefloe.datafile.stored_file import StoredFile
from icefloe.errors import IcefloeError, NoSuchFileError
from icefloe.spec.arrow_values import fill_nulls, numpy_of
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsBlob, StatisticsFile
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.puffin_file import PuffinSource, read_blob, read_file_metadata
from icefloe.spec.puffin.puffin_metadata import BlobMetadata
from icefloe.spec.puffin.theta_sketch import BLOB_TYPE, sketch_from_bytes
from icefloe.spec.statistics.partition_statistics_schema import DATA_FILES, DATA_RECORDS, DATA_SIZE, PARTITION, SPEC_ID
from icefloe.spec.types import NestedField, PrimitiveType, StructType, UUIDType

_COMPUTE = "compute the statistics again: compute_table_stats or compute_partition_stats"


_rule = RuleGroup(level=Level.STATISTICS_FILE, section="Table Statistics", next_step=_COMPUTE, depth=Depth.DATA).rule


STATISTICS_MISSING = _rule(
    "statistics-missing",
    Severity.WARNING,
    "Every statistics file and partition statistics file exists.",
    "Engines plan without statistics, or fail where they load them.",
    depth=Depth.FILES,
)
STATISTICS_SIZE = _rule(
    "statistics-size",
    Severity.WARNING,
    "A statistics file has the size, and its footer the size, that the metadata file states.",
    "Engines that look for the footer by the stated sizes fail to load the statistics.",
    depth=Depth.FILES,
)
STATISTICS_DAMAGED = _rule(
    "statistics-damaged",
    Severity.WARNING,
    "A statistics file is a whole Puffin file whose blobs can be unpacked; a partition statistics file has a row for each partition.",
    "Engines plan without statistics, or fail where they load them.",
)
STATISTICS_BLOBS = _rule(
    "statistics-blobs",
    Severity.WARNING,
    "The blobs of a statistics file are those that the metadata file lists: type, snapshot, sequence number and fields.",
    "Engines use the statistics of one column or snapshot for another.",
)
STATISTICS_FIELDS = _rule(
    "statistics-fields",
    Severity.NOTE,
    "The fields of a blob are columns that a schema of the table has.",
    "The statistics are never used.",
    depth=Depth.METADATA,
)
PARTITION_STATISTICS = _rule(
    "partition-statistics-columns",
    Severity.WARNING,
    "A partition statistics file has the columns of the specification, with their field ids.",
    "Engines cannot use the statistics.",
    section="Partition Statistics File",
)
PARTITION_STATISTICS_ORDER = _rule(
    "partition-statistics-order",
    Severity.WARNING,
    "The rows of a partition statistics file are in ascending order of their partitions, nulls first.",
    "Engines that search the rows by partition miss some.",
    section="Partition Statistics File",
)
RULES = (
    STATISTICS_MISSING,
    STATISTICS_SIZE,
    STATISTICS_DAMAGED,
    STATISTICS_BLOBS,
    STATISTICS_FIELDS,
    PARTITION_STATISTICS,
    PARTITION_STATISTICS_ORDER,
)

_REQUIRED_COLUMNS = (PARTITION, SPEC_ID, DATA_RECORDS, DATA_FILES, DATA_SIZE)
_FRAME_BYTES = 16  # the bytes of a Puffin footer without its payload: magic, payload size, flags, magic
_MOST_BLOBS = 100  # the most blobs of one file whose fields are checked, and the most missing blobs that are reported


def statistics_field_findings(content: TableContent) -> Iterator[Finding]:
    """Yield a finding for each blob whose fields no schema has, by the metadata file alone; no statistics file is read."""
    known = {field_id for schema in content.schemas.values() for field_id in schema.field_ids}
    for position, file in enumerate(content.statistics):
        for number, blob in enumerate(file.blob_metadata[:_MOST_BLOBS]):
            unknown = [field_id for field_id in blob.fields if field_id not in known]
            if unknown:
                yield STATISTICS_FIELDS.finding(
                    f"a blob of {value_text(file.statistics_path)} is of the fields {value_text(unknown)}, which no schema has",
                    snapshot_id=file.snapshot_id,
                    file=content.metadata_location,
                    path=file.statistics_path,
                    where=f"$.statistics[{position}].blob-metadata[{number}].fields",
                    actual=value_text(unknown),
                )


def statistics_findings(content: TableContent, layout: TableLayout, depths: frozenset[Depth]) -> Iterator[Callable[[], Iterator[Finding]]]:
    """Yield a function for each statistics file that checks it, and yields the findings. If `depths` has only `Depth.FILES`, the check compares sizes only."""
    reads = bool(depths & {Depth.DATA, Depth.VALUES})
    for file in content.statistics:
        yield partial(_statistics_file, file, content, layout, reads)
    for partition_file in content.partition_statistics:
        yield partial(_partition_file, partition_file, content, layout, reads)


def _place(file: StatisticsFile | PartitionStatisticsFile, content: TableContent) -> FindingPlace:
    return FindingPlace(snapshot_id=file.snapshot_id, file=content.metadata_location, path=file.statistics_path)


def _unread(error: IcefloeError, place: FindingPlace) -> Finding:
    finding = unreadable(
        error, place.get("path") or "", place.get("snapshot_id"), STATISTICS_MISSING, STATISTICS_DAMAGED, "statistics file"
    )
    return Finding(**{name: getattr(finding, name) for name in ("rule", "severity", "message", "next_step", "where")}, **place)


def _size_finding(io: FileIO, file: StatisticsFile | PartitionStatisticsFile, place: FindingPlace) -> Iterator[Finding]:
    """Yield a finding if a file is missing or has a different size than the metadata file states."""
    try:
        size = io.size(file.statistics_path)
    except READ_ERRORS as error:
        yield _unread(error, place)
        return
    if size != file.file_size_in_bytes:
        yield STATISTICS_SIZE.finding(
            f"{value_text(file.statistics_path)} has {size:,} bytes, and the metadata file states {file.file_size_in_bytes:,}",
            where="file-size-in-bytes",
            expected=size,
            actual=file.file_size_in_bytes,
            **place,
        )


def _statistics_file(file: StatisticsFile, content: TableContent, layout: TableLayout, reads: bool) -> Iterator[Finding]:
    place = _place(file, content)
    yield from _size_finding(layout.io, file, place)
    if not reads or file.key_metadata is not None:
        return
    try:
        with layout.io.open_input(file.statistics_path) as opened_file:
            source = PuffinSource(file.statistics_path, opened_file.size(), lambda offset, length: opened_file.read_at(length, offset))
            metadata = read_file_metadata(source)
            yield from _footer_finding(source, file, place)
            yield from _blob_findings(metadata.blobs, file, place)
            for blob in metadata.blobs:
                yield from _content_findings(source, blob, place)
    except NoSuchFileError:
        return  # `_size_finding` has reported the missing file
    except READ_ERRORS as error:
        yield _unread(error, place)


def _footer_finding(source: PuffinSource, file: StatisticsFile, place: FindingPlace) -> Iterator[Finding]:
    tail = source.read_range(source.file_size - 12, 12)
    size = int.from_bytes(tail[:4], "little") + _FRAME_BYTES
    if size != file.file_footer_size_in_bytes:
        yield STATISTICS_SIZE.finding(
            f"the footer of {value_text(file.statistics_path)} has {size:,} bytes, and the metadata file states {file.file_footer_size_in_bytes:,}",
            where="file-footer-size-in-bytes",
            expected=size,
            actual=file.file_footer_size_in_bytes,
            **place,
        )


def _blob_findings(blobs: tuple[BlobMetadata, ...], file: StatisticsFile, place: FindingPlace) -> Iterator[Finding]:
    lacking = Counter(map(_identity, file.blob_metadata)) - Counter(map(_identity, blobs))
    for blob in list(lacking)[:_MOST_BLOBS]:
        yield STATISTICS_BLOBS.finding(
            f"the metadata file lists a blob {value_text(blob)} of {value_text(file.statistics_path)}, which has none such",
            where="blob-metadata",
            actual=value_text(blob),
            **place,
        )


def _identity(blob: BlobMetadata | StatisticsBlob) -> tuple[str, int, int, tuple[int, ...]]:
    return blob.type, blob.snapshot_id, blob.sequence_number, tuple(blob.fields)


def _content_findings(source: PuffinSource, blob: BlobMetadata, place: FindingPlace) -> Iterator[Finding]:
    """Yield a finding if a blob cannot be decompressed, or is a damaged sketch."""
    try:
        data = read_blob(source, blob)
        if blob.type == BLOB_TYPE:
            sketch_from_bytes(data)
    except READ_ERRORS as error:
        yield _unread(error, place)


def _unsorted_at(content: TableContent, stored: StoredFile) -> int | None:
    """Return the position of the first row whose partition sorts before that of the previous row; None if no row does, or the order cannot be computed."""
    column = next((column_of_file for column_of_file in file_columns(stored.schema).inner if column_of_file.arrow.name == PARTITION), None)
    if column is None or column.field_id is None or not pa.types.is_struct(column.arrow.type):
        return None
    types = {field.field_id: field for partition_type in content.partition_types().values() for field in partition_type.fields}
    fields = [types[child.field_id] for child in column.inner if child.field_id in types]
    if len(fields) < len(column.inner):
        return None
    row = NestedField(column.field_id, PARTITION, StructType(*fields))
    parts = [
        batch.rows.column(columns_by_id(batch.rows.schema)[row.field_id][0])
        for batch in map(decode_dictionaries, stored.batches((row,), AlwaysTrue()))
    ]
    values = pa.concat_arrays(parts).flatten() if parts else []
    is_wrong, is_decided = (np.zeros(max(sum(map(len, parts)) - 1, 0), bool) for _ in range(2))
    # Writers sort UUIDs differently, so that partitions are compared only by the fields before the first UUID.
    compared = takewhile(lambda field: isinstance(field.field_type, PrimitiveType) and field.field_type != UUIDType(), fields)
    for _, array in zip(compared, values, strict=False):
        ranks = _ranks(array)
        is_wrong |= ~is_decided & (ranks[1:] < ranks[:-1])
        is_decided |= ranks[1:] != ranks[:-1]
    return int(np.argmax(is_wrong)) + 1 if is_wrong.any() else None


def _ranks(values: Any) -> NDArray[np.int64]:
    """Return integers that sort like the values: nulls first, -0.0 before 0.0, NaN last."""
    if pa.types.is_floating(values.type):
        bits = numpy_of(fill_nulls(values.cast(pa.float64()), 0.0)).view(np.int64)
        ordered = np.where(bits < 0, np.int64(-(2**63)) - bits - 1, bits)
        ordered = np.where(numpy_of(fill_nulls(pc.is_nan(values), False)), np.int64(2**63 - 1), ordered)
        return np.where(numpy_of(values.is_null()), np.int64(-(2**63)), ordered)
    ranks = numpy_of(pc.rank(values, tiebreaker="dense").cast(pa.int64()))
    return np.where(numpy_of(values.is_null()), 0, ranks)


def _partition_file(file: PartitionStatisticsFile, content: TableContent, layout: TableLayout, reads: bool) -> Iterator[Finding]:
    place = _place(file, content)
    yield from _size_finding(layout.io, file, place)
    if not reads:
        return
    path = file.statistics_path
    file_format = next((kind for kind in FileFormat if path.lower().endswith(f".{kind.value.lower()}")), FileFormat.PARQUET)
    as_file = DataFile(file_path=path, file_format=file_format, record_count=0, file_size_in_bytes=file.file_size_in_bytes)
    try:
        with open_by_format(layout, as_file) as stored:
            names = set(stored.schema.names)
            lacking = [name for name in _REQUIRED_COLUMNS if name not in names]
            if lacking or not has_ids(stored.schema):
                what = f"lacks the columns {', '.join(lacking)}" if lacking else "has no field ids"
                yield PARTITION_STATISTICS.finding(f"{value_text(path)} {what}", actual=value_text(sorted(names)), **place)
                stored.count_rows()
                return
            unsorted_at = _unsorted_at(content, stored)
            if unsorted_at is not None:
                yield PARTITION_STATISTICS_ORDER.finding(
                    f"row {unsorted_at:,} of {value_text(path)} is before the row that precedes it", where=f"row {unsorted_at}", **place
                )
    except NoSuchFileError:
        return
    except READ_ERRORS as error:
        yield _unread(error, place)
