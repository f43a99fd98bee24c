"""`FooterReader`: data files that other writers made, as they may be added to a table: whether their columns fit, and their metrics, from their footers alone.

Which partition a file is of is `partition_of_file.py`; the numbers of a Parquet footer are `footer_metrics.py`.
Spec: Column Projection; Data File Fields; Appendix A.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import orc

from icefloe.datafile.field_ids import has_ids, mapped_ids, with_ids
from icefloe.datafile.file_metrics import FileMetrics
from icefloe.datafile.footer_bounds import Extremes
from icefloe.datafile.footer_columns import StoredLeaf, column_problems, places_to_be_required, stored_leaves
from icefloe.datafile.footer_metrics import ColumnReading, column_reading, footer_metrics
from icefloe.datafile.leaves import leaves_of
from icefloe.datafile.metrics_modes import metrics_modes
from icefloe.datafile.orc.orc_rows import orc_field_id
from icefloe.datafile.parquet.parquet_footer import open_parquet
from icefloe.errors import DataFileFormatError, IcefloeError, Problem, SchemaMismatchError, UnsupportedFeatureError
from icefloe.kernel.manifest.data_file import DataFile, FileFormat
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.storage_errors import storage_error

_MAGIC_BYTES = 4
_ENCRYPTED = (b"AGS1", b"PARE")
_PARQUET, _ORC = b"PAR1", b"ORC"
# Where Arrow's writer keeps the schema it was given, which decides besides the Parquet schema what Arrow reads.
_ARROW_SCHEMA = b"ARROW:schema"
# Of so many different sets of columns what follows is kept. Files of one writer mostly have one.
KEPT_LAYOUTS = 8


@dataclass(frozen=True, kw_only=True)
class FooterRequest:
    """What files' footers are held against. `name_mapping` gives ids to the columns of files without any."""

    schema: Schema
    properties: Mapping[str, str]
    name_mapping: NameMapping
    io: FileIO
    sort_order: SortOrder = UNSORTED_SORT_ORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDataFile:
    """A file and what its footer tells: `metrics` (of Parquet alone) and, of the columns that were asked for, `extremes` by field id, untruncated, of those
    in which every row has a value or a null. `lacks` are the ids of the table's leaves that the file has no column for.
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
        """What a manifest says of the file. NaNs are not counted."""
        found = self.metrics
        return DataFile(
            file_path=self.location,
            file_format=self.file_format,
            record_count=self.records,
            file_size_in_bytes=self.size,
            partition=partition,
            column_sizes=None if found is None else found.column_sizes,
            value_counts=None if found is None else found.value_counts,
            null_value_counts=None if found is None else found.null_value_counts,
            lower_bounds=None if found is None else found.lower_bounds,
            upper_bounds=None if found is None else found.upper_bounds,
            split_offsets=None if found is None else found.split_offsets,
            spec_id=spec_id,
        )


class FooterReader:
    """Reads footers of files that are to be of one table. What follows from the columns of a file is worked out once for all files of the same columns.

    `extremes_of` are columns whose extremes are told; `from_path` are columns that a path may tell, which a file may lack. Threads may share it.
    """

    def __init__(
        self, request: FooterRequest, *, extremes_of: frozenset[int] = frozenset(), from_path: frozenset[int] = frozenset()
    ) -> None:
        self._request = request
        self._extremes_of = extremes_of
        self._from_path = from_path
        leaves = leaves_of(request.schema)
        self._modes = {
            leaf.field_id: mode
            for leaf, mode in zip(leaves, metrics_modes(request.schema, leaves, request.properties, request.sort_order), strict=True)
        }
        # The newest first.
        self._layouts: tuple[_Layout, ...] = ()

    def read(self, location: str) -> StoredDataFile:
        """Reads the footer of one file: two or three short reads, no rows.

        Raises:
            NoSuchFileError, StorageError: as storage has it.
            DataFileFormatError: the file is damaged, or of no format that can be added.
            UnsupportedFeatureError: it is encrypted.
            SchemaMismatchError: columns do not fit the table; every one is named, and the file.
        """
        with self._request.io.open_input(location) as source, _reading(location):
            magic = bytes(source.read(_MAGIC_BYTES))
            size = int(source.size())
            source.seek(0)
            if magic == _PARQUET:
                return self._of_parquet(source, location, size)
            if magic.startswith(_ORC):
                return self._of_orc(source, location, size)
            raise _cannot_be_added(magic, location)

    def _of_parquet(self, source: Any, location: str, size: int) -> StoredDataFile:
        footer = open_parquet(source, location).metadata
        layout = self._layout(footer, location)
        if layout.without_nulls and any(count != 0 for count in _null_counts(footer, layout.without_nulls).values()):
            self._refuse_unfit(layout.columns, footer, location)
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

    def _layout(self, footer: Any, location: str) -> "_Layout":
        """What follows from the columns of this file."""
        arrow = (footer.metadata or {}).get(_ARROW_SCHEMA)
        stored = footer.schema
        for known in self._layouts:
            if known.arrow == arrow and known.stored.equals(stored):
                return known
        made = self._new_layout(footer, arrow, location)
        self._layouts = (made, *self._layouts[: KEPT_LAYOUTS - 1])
        return made

    def _new_layout(self, footer: Any, arrow: bytes | None, location: str) -> "_Layout":
        stored = footer.schema
        columns = stored.to_arrow_schema()
        own_ids = has_ids(columns)
        known = columns if own_ids else with_ids(columns, mapped_ids(self._request.name_mapping))
        self._refuse_unfit(known, footer, location)
        leaves = stored_leaves(known, self._request.schema)
        readings = (
            column_reading(
                leaf, self._modes[leaf.leaf.field_id], stored.column(leaf.leaf.place), extremes=leaf.leaf.field_id in self._extremes_of
            )
            for leaf in leaves
        )
        return _Layout(
            stored=stored,
            arrow=arrow,
            columns=known,
            has_ids=own_ids,
            without_nulls=places_to_be_required(known, self._request.schema),
            readings=tuple(reading for reading in readings if reading is not None),
            lacks=self._lacking(leaves),
        )

    def _of_orc(self, source: Any, location: str, size: int) -> StoredDataFile:
        """Of an ORC file how many rows it has: Arrow hands no statistics over."""
        opened = orc.ORCFile(source)
        columns = with_ids(opened.schema, orc_field_id)
        own_ids = has_ids(columns)
        known = columns if own_ids else with_ids(opened.schema, mapped_ids(self._request.name_mapping))
        schema = self._request.schema
        _refuse(column_problems(known, schema, may_lack=self._from_path, nulls_in=None, floors_nanoseconds=True), location)
        return StoredDataFile(
            location=location,
            file_format=FileFormat.ORC,
            size=size,
            records=opened.nrows,
            has_ids=own_ids,
            lacks=self._lacking(stored_leaves(known, schema)),
        )

    def _refuse_unfit(self, columns: Any, footer: Any, location: str) -> None:
        nulls = _null_counts(footer, range(footer.num_columns))
        _refuse(column_problems(columns, self._request.schema, may_lack=self._from_path, nulls_in=nulls), location)

    def _lacking(self, leaves: Sequence[StoredLeaf]) -> frozenset[int]:
        return frozenset(self._modes) - {stored.leaf.field_id for stored in leaves}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """What follows from the columns of Parquet files: `stored` is their Parquet schema, `arrow` the Arrow schema in their footers, where there is one.

    `columns` is their Arrow schema with field ids; `without_nulls` are places of leaves that may be null in the files, and must not be by the table.
    """

    stored: Any
    arrow: bytes | None
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
            f"{location} has no sound footer: {error}", path=location, next_step="leave it out, or write it again"
        ) from error
    except OSError as error:
        if error.errno is not None:
            raise storage_error(error, location) from error
        raise DataFileFormatError(
            f"{location} has no sound footer: {error}", path=location, next_step="leave it out, or write it again"
        ) from error


def _null_counts(footer: Any, places: Iterable[int]) -> Mapping[int, int | None]:
    """How many nulls the leaves at these places have, None where the footer does not say."""
    found: dict[int, int | None] = dict.fromkeys(places, 0)
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        for place, before in found.items():
            statistics = group.column(place).statistics
            known = statistics is not None and statistics.has_null_count
            found[place] = before + statistics.null_count if known and before is not None else None
    return found


def _refuse(problems: Sequence[Problem], location: str) -> None:
    if problems:
        raise SchemaMismatchError(
            f"{location} does not fit the table",
            path=location,
            problems=problems,
            next_step="leave the file out, append its rows with their columns cast, or change the table's schema",
        )
