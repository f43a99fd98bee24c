"""Rules of data files: each exists, has the size, row count and columns that its entry states, and metrics that agree with its footer.

Footers are read, rows are not; `row_rules.py` reads rows. A file that cannot be read is a finding. Spec: Data File Fields; Column Projection; Appendix A.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from icefloe.checks.file_column_rules import ColumnValues, id_findings, ids_of, metrics_findings, type_findings
from icefloe.checks.finding import Finding, Severity
from icefloe.checks.listed_files import ListedFile
from icefloe.checks.manifest_check import unreadable
from icefloe.checks.rule import Depth, FindingPlace, Level, Rule, RuleGroup, value_text
from icefloe.datafile.data_file_reader import identity_constants
from icefloe.datafile.field_ids import has_ids, mapped_ids, with_ids
from icefloe.datafile.file_metrics import MetricsMode, physical_value
from icefloe.datafile.files_to_add import partition_without_column
from icefloe.datafile.footer_columns import StoredLeaf, int96_places, stored_leaves, type_fault
from icefloe.datafile.footer_metrics import column_reading, footer_metrics
from icefloe.datafile.orc.orc_rows import OrcRows
from icefloe.datafile.parquet.parquet_footer import CheckedFooter, open_footer
from icefloe.datafile.projection import file_columns
from icefloe.datafile.stored_batch import reading
from icefloe.datafile.stored_file import StoredFile, opened_stored_file
from icefloe.errors import FormatError, IcefloeError, NoSuchFileError, OutOfMemoryError, StoragePermissionError, UnsupportedError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.sort_order import SortOrder
from icefloe.spec.partitioning.transforms import IdentityTransform, UnknownTransform, VoidTransform
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import PrimitiveType

_RESTORE = "restore the file from a copy, or plan with icefloe repair what giving up the file costs"


# Compaction does not correct a wrong partition: it writes the rows into the partition that their file has.
BY_PARTITION_OF_VALUES = (
    "read the rows with the filter _file = '<path of the file>'; in one transaction delete by that filter and append the rows, with the right values"
    " of the column"
)


_rule = RuleGroup(level=Level.DATA_FILE, section="Data File Fields", next_step=_RESTORE, depth=Depth.DATA).rule


FILE_MISSING = _rule(
    "file-missing",
    Severity.ERROR,
    "Every live data file and delete file exists.",
    "Scans that need the file fail; without a delete file, deleted rows would return.",
    depth=Depth.FILES,
)
FILE_SIZE = _rule(
    "file-size",
    Severity.WARNING,
    "A file has as many bytes as its entry states.",
    "Engines that look for the footer by the stated size fail, or read another file's rows unnoticed.",
    next_step="let icefloe repair write the entry again with the size of the file",
    depth=Depth.FILES,
)
FILE_DAMAGED = _rule(
    "file-damaged",
    Severity.ERROR,
    "A data file is a whole file of its format.",
    "Scans that need the file fail.",
)
FILE_ROW_COUNT = _rule(
    "file-row-count",
    Severity.ERROR,
    "A file has as many rows as its entry states.",
    "It is not the file that was committed: counts are wrong, and position deletes and row ids apply to other rows.",
)
SPLIT_OFFSETS = _rule(
    "split-offsets-of-file",
    Severity.WARNING,
    "The split offsets of an entry are starts of row groups of the file.",
    "Engines that split by them read row groups twice or not at all, or make one task of the file.",
    next_step="let icefloe repair --data write the entry again, or rewrite the file",
)
PARTITION_OF_MISSING_COLUMN = _rule(
    "partition-of-missing-column",
    Severity.ERROR,
    "Where a file lacks the source column of a partition field other than an identity field, its entry has the partition of the column's default or null.",
    "The rows are read as null, skipped by IS NULL, and found and deleted by filters on the partition's value.",
    section="Column Projection",
    next_step=BY_PARTITION_OF_VALUES,
)
RULES = (FILE_MISSING, FILE_SIZE, FILE_DAMAGED, FILE_ROW_COUNT, SPLIT_OFFSETS, PARTITION_OF_MISSING_COLUMN)

READ_ERRORS = (FormatError, OutOfMemoryError, UnsupportedError, NoSuchFileError, StoragePermissionError)
_SMALL_BYTES = 256 * 1024  # files up to this size are read in one request
_ALL_COUNTS = MetricsMode(counts=True, bounds=False)


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """The metadata of a table that the checks of its files need. It pickles, because Spark's tasks receive it.

    Attributes:
        io: The storage.
        schemas: The schemas that can be read, the current one first.
        specs: The partition specs by id.
        sort_orders: The sort orders by id.
        name_mapping: Field ids for files without ids; None if the table has none.
        next_row_id: The next row id of the table; None before version 3.
    """

    io: FileIO
    schemas: Sequence[Schema]
    specs: Mapping[int, PartitionSpec] = field(default_factory=dict)
    sort_orders: Mapping[int, SortOrder] = field(default_factory=dict)
    name_mapping: NameMapping | None = None
    next_row_id: int | None = None

    def constants(self, file: DataFile) -> frozenset[int]:
        """Return the field ids of the columns whose value a file takes from its partition."""
        spec = self.specs.get(file.spec_id)
        return (
            frozenset() if spec is None or len(spec.fields) != len(file.partition) else frozenset(identity_constants(spec, file.partition))
        )


def place_of(listed: ListedFile, place: FindingPlace) -> FindingPlace:
    """Return the common arguments of all findings about a file: those of its manifest, with the entry and the path of the file."""
    return {**place, "entry": listed.entry, "path": listed.file.file_path}


def file_unreadable(error: IcefloeError, place: FindingPlace, damaged: Rule, kind: str) -> Finding:
    """Return the finding about a file that cannot be read. Its place is the entry of the file in its manifest."""
    path = place.get("path") or ""
    finding = unreadable(error, path, place.get("snapshot_id"), FILE_MISSING, damaged, kind)
    return Finding(
        **{name: getattr(finding, name) for name in ("rule", "severity", "message", "next_step", "where")},
        **place,
    )


def size_findings(layout: TableLayout, file: DataFile, place: FindingPlace, kind: str) -> Iterator[Finding]:
    """Yield a finding if a file is missing, or has a different size than its entry states. It sends one request to the storage."""
    try:
        size = layout.io.size(file.file_path)
    except READ_ERRORS as error:
        yield file_unreadable(error, place, FILE_DAMAGED, kind)
        return
    yield from _other_size(file, size, place)


def _other_size(file: DataFile, size: int, place: FindingPlace) -> Iterator[Finding]:
    if size != file.file_size_in_bytes:
        yield FILE_SIZE.finding(
            f"{value_text(file.file_path)} has {size:,} bytes, and its entry states {file.file_size_in_bytes:,}",
            expected=size,
            actual=file.file_size_in_bytes,
            **place,
        )


def row_count_findings(file: DataFile, rows: int, place: FindingPlace) -> Iterator[Finding]:
    """Yield a finding if a file has a different number of rows than its entry states."""
    if rows != file.record_count:
        yield FILE_ROW_COUNT.finding(
            f"{value_text(file.file_path)} has {rows:,} rows, and its entry states {file.record_count:,}",
            expected=rows,
            actual=file.record_count,
            **place,
        )


def data_file_findings(layout: TableLayout, listed: ListedFile, manifest_place: FindingPlace) -> Iterator[Finding]:
    """Yield the findings about a data file, by its footer or header. A damaged file is a finding too."""
    file, place = listed.file, place_of(listed, manifest_place)
    check = _parquet_findings if file.file_format is FileFormat.PARQUET and file.key_metadata is None else _other_findings
    try:
        yield from check(layout, file, place)
    except READ_ERRORS as error:
        yield file_unreadable(error, place, FILE_DAMAGED, "data file")
        if not isinstance(error, NoSuchFileError):
            yield from size_findings(layout, file, place, "data file")


def _parquet_findings(layout: TableLayout, file: DataFile, place: FindingPlace) -> Iterator[Finding]:
    try:
        size, checked, columns = _footer(layout.io, file.file_path)
    except FormatError:
        # `open_by_format` raises another error for an encrypted file than for a damaged one.
        with open_by_format(layout, file):
            raise
    yield from _other_size(file, size, place)
    footer = checked.metadata
    rows = sum(footer.row_group(index).num_rows for index in range(footer.num_row_groups))
    yield from row_count_findings(file, rows, place)
    file_has_ids = has_ids(columns)
    if not file_has_ids:
        yield from id_findings(columns, layout.name_mapping is not None, layout.schemas, place)
        columns = columns if layout.name_mapping is None else with_ids(columns, mapped_ids(layout.name_mapping))
    else:
        yield from id_findings(columns, True, layout.schemas, place)
    int96 = int96_places(footer.schema)
    yield from type_findings(columns, layout.schemas, layout.constants(file), floors_nanoseconds=False, place=place, int96=int96)
    yield from _partition_findings(layout, file, columns, place)
    offsets, values = _footer_values(layout, checked, columns)
    yield from metrics_findings(file, values, place)
    yield from _offset_findings(file, offsets, place)


def _footer(io: FileIO, path: str) -> tuple[int, CheckedFooter, Any]:
    with io.open_input(path) as source, reading(path):
        size = int(source.size())
        file = pa.BufferReader(source.read()) if size <= _SMALL_BYTES else source
        checked = open_footer(file, path)
        checked.check_all()
        return size, checked, checked.metadata.schema.to_arrow_schema()


def _footer_values(layout: TableLayout, checked: CheckedFooter, columns: Any) -> tuple[Sequence[int], Mapping[int, ColumnValues]]:
    """Return the first byte of each row group, and by field id the counts and extremes that the footer has for each leaf column of the table.

    Columns inside of lists and maps are left out.
    """
    leaves: dict[int, StoredLeaf] = {}
    for schema in layout.schemas:
        for stored in stored_leaves(columns, schema):
            if not stored.leaf.repeated:
                leaves.setdefault(stored.leaf.field_id, stored)
    footer = checked.metadata
    int96 = int96_places(footer.schema)
    readings = [
        column_reading(stored, _ALL_COUNTS, footer.schema.column(stored.leaf.place), extremes=True)
        for stored in leaves.values()
        if _is_readable(stored, is_int96=stored.leaf.place in int96)
    ]
    metrics, extremes = footer_metrics(footer, [each for each in readings if each is not None])
    values = {}
    for field_id, count in metrics.value_counts.items():
        kind, bounds = leaves[field_id].leaf.kind, extremes.get(field_id)
        pair = None if bounds is None or not bounds.exact else bounds.values
        values[field_id] = ColumnValues(
            kind=kind,
            least=None if pair is None else _physical(kind, pair[0]),
            greatest=None if pair is None else _physical(kind, pair[1]),
            values=count,
            nulls=metrics.null_value_counts.get(field_id),
            size=(metrics.column_sizes or {}).get(field_id),
        )
    return metrics.split_offsets or (), values


def _is_readable(stored: StoredLeaf, *, is_int96: bool) -> bool:
    """Return whether a column of a file has the type of the table's column, so that their values can be compared; `type_findings` reports other columns."""
    return type_fault(stored.arrow, stored.leaf.kind, floors_nanoseconds=False, is_int96=is_int96) is None


def _physical(kind: PrimitiveType, raw: Any) -> Any:
    """Convert a value of a footer to Iceberg's physical value; None if the type does not have such a value."""
    try:
        return physical_value(kind, raw)
    except (FormatError, ValueError, ArithmeticError, TypeError):
        return None


def _partition_findings(layout: TableLayout, file: DataFile, columns: Any, place: FindingPlace) -> Iterator[Finding]:
    """Yield a finding for each partition value that differs from the value of the rows, among fields whose source column the file does not have.

    Args:
        layout: The table.
        file: The data file.
        columns: The Arrow schema of the file with field ids.
        place: The common arguments of the findings.
    """
    spec = layout.specs.get(file.spec_id)
    if spec is None or len(spec.fields) != len(file.partition) or not layout.schemas or not has_ids(columns):
        return
    present = ids_of(file_columns(columns))
    constants = identity_constants(spec, file.partition)
    for partition_field, value in zip(spec.fields, file.partition, strict=True):
        source_id, transform = partition_field.source_id, partition_field.transform
        schema = next((each for each in layout.schemas if source_id in each), None)
        kind = None if schema is None or source_id in present else schema.find_type(source_id)
        if (
            schema is None
            or not isinstance(kind, PrimitiveType)
            or isinstance(transform, IdentityTransform | VoidTransform | UnknownTransform)
        ):
            continue
        try:
            right = partition_without_column(partition_field, kind, schema, constants)
            texts = ["null" if each is None else transform.to_human(transform.result_type(kind), each) for each in (right, value)]
        except IcefloeError:
            continue  # the value depends on the row, or other rules report the transform
        if texts[0] != texts[1]:
            yield PARTITION_OF_MISSING_COLUMN.finding(
                f"{value_text(file.file_path)} lacks column {source_id}, so that the value of {value_text(partition_field.name)} of its rows "
                f"is {value_text(texts[0])}, and its entry has {value_text(texts[1])}",
                field_id=partition_field.field_id,
                expected=value_text(texts[0]),
                actual=value_text(texts[1]),
                **place,
            )


def _offset_findings(file: DataFile, starts: Sequence[int], place: FindingPlace) -> Iterator[Finding]:
    offsets = file.split_offsets
    if offsets and starts and not set(offsets) <= set(starts):
        yield SPLIT_OFFSETS.finding(
            f"the split offsets {value_text(list(offsets))} of {value_text(file.file_path)} are not starts of row groups",
            expected=value_text(list(starts)),
            actual=value_text(list(offsets)),
            **place,
        )


def _other_findings(layout: TableLayout, file: DataFile, place: FindingPlace) -> Iterator[Finding]:
    """Yield the findings about a file that is not plain Parquet: an ORC or Avro file, or an encrypted file."""
    with open_by_format(layout, file) as stored:
        yield from _other_size(file, layout.io.size(file.file_path), place)
        yield from row_count_findings(file, stored.count_rows(), place)
        yield from id_findings(stored.schema, layout.name_mapping is not None, layout.schemas, place)
        constants, floors = layout.constants(file), stored.floors_nanoseconds
        zone = stored.written_in() if isinstance(stored, OrcRows) else None
        yield from type_findings(stored.schema, layout.schemas, constants, floors_nanoseconds=floors, place=place, written_in=zone)
        yield from _partition_findings(layout, file, stored.schema, place)


@contextmanager
def open_by_format(layout: TableLayout, file: DataFile) -> Iterator[StoredFile]:
    """Open a file by its format, without regard to the size and row count that its entry states.

    Raises:
        IcefloeError: The errors of `opened_stored_file`.
    """
    size = layout.io.size(file.file_path)
    task = FileScanTask(file=replace(file, file_size_in_bytes=size), residual=AlwaysTrue(), length=size)
    with opened_stored_file(layout.io, task, layout.name_mapping, has_record_count=False) as stored:
        yield stored
