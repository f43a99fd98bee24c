"""`FooterReader`: check that the columns of other writers' data files match a table, and read their metrics, using only their footers.

`files_to_add.py` determines the partition of a file; `footer_metrics.py` reads the numbers of a Parquet footer.
Spec: Column Projection; Data File Fields; Appendix A.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icefloe.datafile.field_ids import columns_without_ids, has_ids, id_of, mapped_ids, with_ids
from icefloe.datafile.file_metrics import FileMetrics, columns_with_modes
from icefloe.datafile.footer_bounds import Extremes
from icefloe.datafile.footer_columns import StoredLeaf, column_problems, int96_places, places_to_be_required, stored_leaves
from icefloe.datafile.footer_metrics import ColumnReading, column_reading, footer_metrics
from icefloe.datafile.orc.orc_rows import orc_field_id
from icefloe.datafile.orc.orc_timestamps import has_local_timestamps, time_zone_of, with_types_of_spark
from icefloe.datafile.parquet.hybrid_calendar import hybrid_places, known_since_1900
from icefloe.datafile.parquet.parquet_footer import CheckedFooter, open_footer
from icefloe.errors import DataFileFormatError, IcefloeError, Problem, SchemaMismatchError, UnsupportedFeatureError
from icefloe.io.storage_errors import storage_error
from icefloe.lazy_imports import lazy_module
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema

if TYPE_CHECKING:
    from pyarrow import orc
else:  # few tables have ORC data files
    orc = lazy_module("pyarrow.orc")

_MAGIC_BYTES = 4
_SMALL_BYTES = 64 * 1024  # the maximum size of a file that is read as a whole
_ENCRYPTED = (b"AGS1", b"PARE")
_PARQUET, _ORC = b"PAR1", b"ORC"
# Key of the Arrow schema in footers from Arrow's writer. With the Parquet schema it determines the types that Arrow reads.
_ARROW_SCHEMA = b"ARROW:schema"
# The number of column layouts that are cached. The files of one writer usually have the same layout.
KEPT_LAYOUTS = 8
# The maximum number of columns of a file and of a table in an error.
_SHOWN_COLUMNS = 10


@dataclass(frozen=True, kw_only=True)
class FooterRequest:
    """The table to which files are to be added, as far as reading their footers needs it. `name_mapping` has the ids for columns of files without ids."""

    schema: Schema
    properties: Mapping[str, str]
    name_mapping: NameMapping
    io: FileIO
    table_name: str = ""
    sort_order: SortOrder = UNSORTED_SORT_ORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDataFile:
    """A file of another writer, and what its footer contains.

    Attributes:
        location: The location of the file.
        file_format: Its format.
        size: Its size in bytes.
        records: Its number of rows.
        has_ids: Whether its columns have field ids.
        metrics: Its metrics; None for an ORC file.
        extremes: The extremes of the requested columns by field id, not truncated. Columns whose statistics do not cover every row are left out.
        lacks: The field ids of the table's leaf columns that are not in the file.
    """

    location: str
    file_format: FileFormat
    size: int
    records: int
    has_ids: bool
    metrics: FileMetrics | None = None
    extremes: Mapping[int, Extremes] = field(default_factory=dict)
    lacks: frozenset[int] = frozenset()

    def data_file(self, spec_id: int, partition: tuple[Any, ...]) -> DataFile:
        """Return the file as a `DataFile` of a partition, without counts of NaN."""
        metrics = self.metrics
        return DataFile(
            file_path=self.location,
            file_format=self.file_format,
            record_count=self.records,
            file_size_in_bytes=self.size,
            partition=partition,
            column_sizes=None if metrics is None else metrics.column_sizes,
            value_counts=None if metrics is None else metrics.value_counts,
            null_value_counts=None if metrics is None else metrics.null_value_counts,
            lower_bounds=None if metrics is None else metrics.lower_bounds,
            upper_bounds=None if metrics is None else metrics.upper_bounds,
            split_offsets=None if metrics is None else metrics.split_offsets,
            spec_id=spec_id,
        )


class FooterReader:
    """A reader of the footers of files that are to be added to a table. It compares columns with the table only once for all files with the same columns.

    Threads may share it.
    """

    def __init__(
        self, request: FooterRequest, *, extremes_of: frozenset[int] = frozenset(), from_path: frozenset[int] = frozenset()
    ) -> None:
        """Prepare to read.

        Args:
            request: The table.
            extremes_of: Field ids of the columns whose extremes are returned.
            from_path: Field ids of the columns that a file may lack because its path has their value.
        """
        self._request = request
        self._extremes_of = extremes_of
        self._from_path = from_path
        self._modes = {leaf.field_id: mode for leaf, mode in columns_with_modes(request.schema, request.properties, request.sort_order)}
        # The most recent layout is first.
        self._layouts: tuple[_Layout, ...] = ()

    def read(self, location: str) -> StoredDataFile:
        """Read the footer of a file with two or three short requests, without reading rows.

        Raises:
            NoSuchFileError: The file does not exist.
            StorageError: Storage cannot be read.
            DataFileFormatError: The file is damaged, or is neither Parquet nor ORC.
            UnsupportedFeatureError: The file is encrypted.
            SchemaMismatchError: Columns do not match the table; the error lists all of them, and the file.
        """
        with self._request.io.open_input(location) as source, _reading(location):
            size = int(source.size())
            # One request to an object store instead of two.
            file = pa.BufferReader(source.read()) if size <= _SMALL_BYTES else source
            magic = bytes(file.read(_MAGIC_BYTES))
            file.seek(0)
            if magic == _PARQUET:
                return self._of_parquet(file, location, size)
            if magic.startswith(_ORC):
                return self._of_orc(file, location, size)
            raise _cannot_be_added(magic, location)

    def _of_parquet(self, source: Any, location: str, size: int) -> StoredDataFile:
        checked = open_footer(source, location)
        footer = checked.metadata
        layout = self._layout(checked, location)
        if layout.without_nulls and any(count != 0 for count in _null_counts(footer, layout.without_nulls).values()):
            self._refuse_mismatch(layout.columns, footer, location)
        metrics, extremes = footer_metrics(footer, layout.readings)
        return StoredDataFile(
            location=location,
            file_format=FileFormat.PARQUET,
            size=size,
            records=metrics.record_count,
            has_ids=layout.has_ids,
            metrics=metrics,
            extremes=extremes,
            lacks=layout.lacks,
        )

    def _layout(self, checked: CheckedFooter, location: str) -> "_Layout":
        """Check every column chunk, and return the comparison of the file's columns with the table. It is cached for files with the same columns."""
        footer = checked.metadata
        arrow = (footer.metadata or {}).get(_ARROW_SCHEMA)
        stored, hybrid = footer.schema, hybrid_places(footer)
        for layout in self._layouts:
            if layout.arrow == arrow and layout.hybrid == hybrid and layout.stored.equals(stored):
                checked.check_all(like=layout.checked)
                return layout
        checked.check_all()
        layout = self._new_layout(checked, arrow, hybrid, location)
        self._layouts = (layout, *self._layouts[: KEPT_LAYOUTS - 1])
        return layout

    def _new_layout(self, checked: CheckedFooter, arrow: bytes | None, hybrid: frozenset[int], location: str) -> "_Layout":
        footer = checked.metadata
        stored = footer.schema
        columns = stored.to_arrow_schema()
        file_has_ids = has_ids(columns)
        self._refuse_without_ids(columns, location)
        if not file_has_ids:
            columns = with_ids(columns, mapped_ids(self._request.name_mapping))
        self._refuse_mismatch(columns, footer, location)
        leaves = stored_leaves(columns, self._request.schema)
        self._refuse_unread(columns, leaves, location)
        readings = (self._reading(leaf, stored.column(leaf.leaf.place), is_hybrid=leaf.leaf.place in hybrid) for leaf in leaves)
        return _Layout(
            stored=stored,
            checked=checked,
            arrow=arrow,
            hybrid=hybrid,
            columns=columns,
            has_ids=file_has_ids,
            without_nulls=places_to_be_required(columns, self._request.schema),
            readings=tuple(reading for reading in readings if reading is not None),
            lacks=self._lacking(leaves),
        )

    def _reading(self, stored: StoredLeaf, column: Any, *, is_hybrid: bool) -> ColumnReading | None:
        field_id = stored.leaf.field_id
        reading = column_reading(stored, self._modes[field_id], column, extremes=field_id in self._extremes_of)
        if reading is None or reading.convert is None or not is_hybrid:
            return reading
        return replace(reading, convert=known_since_1900(reading.convert, stored.leaf.kind))

    def _of_orc(self, source: Any, location: str, size: int) -> StoredDataFile:
        """Return an ORC file with its number of rows, but without metrics, because Arrow does not return ORC statistics."""
        opened = orc.ORCFile(source)
        stored = with_types_of_spark(opened.schema)
        columns = with_ids(stored, orc_field_id)
        file_has_ids = has_ids(columns)
        self._refuse_without_ids(columns, location)
        if not file_has_ids:
            columns = with_ids(stored, mapped_ids(self._request.name_mapping))
        schema = self._request.schema
        zone = time_zone_of(opened, source) if has_local_timestamps(pa.struct(list(stored))) else None
        _refuse(
            column_problems(columns, schema, may_lack=self._from_path, nulls_in=None, floors_nanoseconds=True, written_in=zone), location
        )
        leaves = stored_leaves(columns, schema)
        self._refuse_unread(columns, leaves, location)
        return StoredDataFile(
            location=location,
            file_format=FileFormat.ORC,
            size=size,
            records=opened.nrows,
            has_ids=file_has_ids,
            lacks=self._lacking(leaves),
        )

    def _refuse_mismatch(self, columns: Any, footer: Any, location: str) -> None:
        nulls = _null_counts(footer, range(footer.num_columns))
        int96 = int96_places(footer.schema)
        _refuse(column_problems(columns, self._request.schema, may_lack=self._from_path, nulls_in=nulls, int96=int96), location)

    def _refuse_without_ids(self, columns: Any, location: str) -> None:
        """Refuse a file with field ids on only some of the table's columns. Its other columns would be null, as name mappings are for files without any id."""
        names = columns_without_ids(columns, self._request.name_mapping)
        if names:
            raise SchemaMismatchError(
                f"{location} has field ids, but none on {', '.join(map(repr, names[:_SHOWN_COLUMNS]))}, which every reader would return as null",
                table=self._request.table_name or None,
                path=location,
                next_step="append its rows, or write the file again with ids on every column or on none",
            )

    def _refuse_unread(self, columns: Any, leaves: Sequence[StoredLeaf], location: str) -> None:
        """Refuse a file whose rows would be null in every column, because none of its columns belongs to the table, by id or by name.

        Raises:
            SchemaMismatchError: The file has no column of the table, and its path does not have the values of all columns.
        """
        top_level = {column.field_id for column in self._request.schema.fields}
        if leaves or any(id_of(column) in top_level for column in columns) or self._lacking(leaves) <= self._from_path:
            return
        names = columns.names
        shown = ", ".join(map(repr, names[:_SHOWN_COLUMNS])) + (", ..." if len(names) > _SHOWN_COLUMNS else "")
        table_columns = ", ".join(self._request.schema.names[:_SHOWN_COLUMNS]) + (", ..." if len(top_level) > _SHOWN_COLUMNS else "")
        raise SchemaMismatchError(
            f"{location} has no column of {self._request.table_name or 'the table'}: its columns are {shown}, and those of the table {table_columns}",
            table=self._request.table_name or None,
            path=location,
            next_step="rename the columns in the file, or add its names to the table property schema.name-mapping.default; upper and lower case differ",
        )

    def _lacking(self, leaves: Sequence[StoredLeaf]) -> frozenset[int]:
        return frozenset(self._modes) - {stored.leaf.field_id for stored in leaves}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The comparison of the columns of Parquet files with a table. It holds for all files with equal columns.

    Attributes:
        stored: The Parquet schema of the files.
        checked: The first footer that was read of such a file.
        arrow: The serialized Arrow schema in their footers; None if they have none.
        hybrid: The indexes of leaves in the hybrid calendar of Spark 2.
        columns: Their Arrow schema with field ids.
        has_ids: Whether the files themselves have field ids.
        without_nulls: The indexes of leaves that are nullable in the files and required in the table, so that they must not have nulls.
        readings: The metrics to read.
        lacks: The field ids of the table's leaf columns that are not in the files.
    """

    stored: Any
    checked: CheckedFooter
    arrow: bytes | None
    hybrid: frozenset[int]
    columns: Any
    has_ids: bool
    without_nulls: tuple[int, ...]
    readings: tuple[ColumnReading, ...]
    lacks: frozenset[int]


def _cannot_be_added(magic: bytes, location: str) -> IcefloeError:
    if magic in _ENCRYPTED:
        return UnsupportedFeatureError(
            f"{location} is encrypted, and encrypted files cannot be added", path=location, next_step="rewrite it without encryption"
        )
    what = "an Avro file, whose rows would have to be read to be counted" if magic.startswith(b"Obj") else "neither Parquet nor ORC"
    return DataFileFormatError(
        f"{location} is {what}, and cannot be added", path=location, next_step="append its rows, or rewrite it as Parquet"
    )


@contextmanager
def _reading(location: str) -> Iterator[None]:
    try:
        yield
    except IcefloeError:
        raise
    except (pa.ArrowException, UnicodeDecodeError, ValueError) as error:
        raise DataFileFormatError(
            f"{location} has no valid footer: {error}", path=location, next_step="leave the file out, or write it again"
        ) from error
    except OSError as error:
        if error.errno is not None:
            raise storage_error(error, location) from error
        raise DataFileFormatError(
            f"{location} has no valid footer: {error}", path=location, next_step="leave the file out, or write it again"
        ) from error


def _null_counts(footer: Any, places: Iterable[int]) -> Mapping[int, int | None]:
    """Return the number of nulls of each leaf at these indexes, by index; None for a leaf whose statistics lack it in a row group."""
    counts: dict[int, int | None] = dict.fromkeys(places, 0)
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        for place, count in counts.items():
            statistics = group.column(place).statistics
            has_count = statistics is not None and statistics.has_null_count
            counts[place] = count + statistics.null_count if has_count and count is not None else None
    return counts


def _refuse(problems: Sequence[Problem], location: str) -> None:
    if problems:
        raise SchemaMismatchError(
            f"{location} does not match the table",
            path=location,
            problems=problems,
            next_step="leave the file out, append its rows with their columns cast, or change the table's schema",
        )
