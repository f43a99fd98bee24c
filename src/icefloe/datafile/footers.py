"""`stored_file`: a data file that another writer made, as it may be added to a table: whether its columns fit, and its metrics, from its footer alone.

Which partition it is of is `partition_of_file.py`; metrics of files that are written here are `metrics.py`. Floor: datafile.
Spec: Column Projection; Data File Fields; Appendix A.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from icefloe.datafile.field_ids import has_ids, mapped_ids, with_ids
from icefloe.datafile.footer_bounds import Extremes, footer_extremes
from icefloe.datafile.footer_columns import StoredLeaf, column_problems, stored_leaves
from icefloe.datafile.leaves import leaves_of
from icefloe.datafile.metrics import FileMetrics, Observations, file_metrics, set_bounds
from icefloe.datafile.metrics_modes import metrics_modes
from icefloe.datafile.orc.orc_rows import orc_field_id
from icefloe.errors import DataFileFormatError, IcefloeError, Problem, SchemaMismatchError, UnsupportedFeatureError
from icefloe.kernel.manifest.data_file import DataFile, FileFormat
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.storage_errors import storage_error

_MAGIC_BYTES = 4
_ENCRYPTED = (b"AGS1", b"PARE")
_FORMATS: Mapping[bytes, FileFormat] = {b"PAR1": FileFormat.PARQUET, b"ORC": FileFormat.ORC}


@dataclass(frozen=True, kw_only=True)
class FooterRequest:
    """What a file's footer is held against. `name_mapping` gives ids to the columns of files without any; `from_path` are columns that a path may tell."""

    schema: Schema
    properties: Mapping[str, str]
    name_mapping: NameMapping
    io: FileIO
    sort_order: SortOrder = UNSORTED_SORT_ORDER
    from_path: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDataFile:
    """A file and what its footer tells beyond its metrics: `extremes`, by field id, untruncated, of columns in which every row has a value or a null.

    `file` has no partition yet. `lacks` are the ids of the table's leaves that the file has no column for.
    """

    file: DataFile
    has_ids: bool
    extremes: Mapping[int, Extremes] = field(default_factory=dict)
    lacks: frozenset[int] = frozenset()


def stored_file(location: str, request: FooterRequest) -> StoredDataFile:
    """Reads the footer of one file: two or three short reads, no rows.

    Raises:
        NoSuchFileError, StorageError: as storage has it.
        DataFileFormatError: the file is damaged, or of no format that can be added.
        UnsupportedFeatureError: it is encrypted.
        SchemaMismatchError: columns do not fit the table; every one is named, and the file.
    """
    with request.io.open_input(location) as source, _reading(location):
        magic = bytes(source.read(_MAGIC_BYTES))
        size = int(source.size())
        source.seek(0)
        if magic in _ENCRYPTED:
            raise UnsupportedFeatureError(
                f"{location} is encrypted, and encrypted files cannot be added", path=location, next_step="rewrite it without encryption"
            )
        file_format = next((found for sign, found in _FORMATS.items() if magic.startswith(sign)), None)
        if file_format is None:
            what = "an Avro file, whose rows would have to be read to be counted" if magic.startswith(b"Obj") else "neither Parquet nor ORC"
            raise DataFileFormatError(
                f"{location} is {what}, and cannot be added", path=location, next_step="append its rows, or rewrite it as Parquet"
            )
        found = _of_parquet(source, location, request) if file_format is FileFormat.PARQUET else _of_orc(source, location, request)
        return replace(found, file=replace(found.file, file_size_in_bytes=size))


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


def _of_parquet(source: Any, location: str, request: FooterRequest) -> StoredDataFile:
    opened = pq.ParquetFile(source)
    footer, columns = opened.metadata, opened.schema_arrow
    own_ids = has_ids(columns)
    known = columns if own_ids else with_ids(columns, mapped_ids(request.name_mapping))
    nulls = _null_counts(footer)
    problems = column_problems(known, request.schema, may_lack=request.from_path, nulls_in=nulls)
    _refuse(problems, location)
    leaves = stored_leaves(known, request.schema)
    modes = dict(
        zip(
            (leaf.field_id for leaf in leaves_of(request.schema)),
            metrics_modes(request.schema, leaves_of(request.schema), request.properties, request.sort_order),
            strict=True,
        )
    )
    # Bounds are made below: what a foreign footer says of them has to be looked at more closely.
    plain = [(stored.leaf, replace(modes[stored.leaf.field_id], bounds=False)) for stored in leaves]
    metrics = replace(file_metrics(footer, Observations(plain)), nan_value_counts={})
    extremes: dict[int, Extremes] = {}
    for stored in leaves:
        if stored.leaf.repeated:
            continue
        low_high = footer_extremes(footer, stored)
        if low_high is None:
            continue
        extremes[stored.leaf.field_id] = low_high
        if modes[stored.leaf.field_id].bounds and low_high.values is not None:
            set_bounds(metrics, stored.leaf, modes[stored.leaf.field_id], low_high.values)
    return StoredDataFile(
        file=_data_file(location, FileFormat.PARQUET, metrics),
        has_ids=own_ids,
        extremes=extremes,
        lacks=_lacking(request.schema, leaves),
    )


def _of_orc(source: Any, location: str, request: FooterRequest) -> StoredDataFile:
    """Of an ORC file how many rows it has: Arrow hands no statistics over."""
    opened = orc.ORCFile(source)
    columns = with_ids(opened.schema, orc_field_id)
    own_ids = has_ids(columns)
    known = columns if own_ids else with_ids(opened.schema, mapped_ids(request.name_mapping))
    _refuse(column_problems(known, request.schema, may_lack=request.from_path, nulls_in=None, floors_nanoseconds=True), location)
    file = DataFile(file_path=location, file_format=FileFormat.ORC, record_count=opened.nrows, file_size_in_bytes=0)
    return StoredDataFile(file=file, has_ids=own_ids, lacks=_lacking(request.schema, stored_leaves(known, request.schema)))


def _data_file(location: str, file_format: FileFormat, found: FileMetrics) -> DataFile:
    return DataFile(
        file_path=location,
        file_format=file_format,
        record_count=found.record_count,
        file_size_in_bytes=0,
        column_sizes=found.column_sizes,
        value_counts=found.value_counts,
        null_value_counts=found.null_value_counts,
        lower_bounds=found.lower_bounds,
        upper_bounds=found.upper_bounds,
        split_offsets=found.split_offsets,
    )


def _null_counts(footer: Any) -> Mapping[int, int | None]:
    """How many nulls each leaf has, None where the footer does not say."""
    found: dict[int, int | None] = dict.fromkeys(range(footer.num_columns), 0)
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        for place, before in found.items():
            statistics = group.column(place).statistics
            known = statistics is not None and statistics.has_null_count
            found[place] = before + statistics.null_count if known and before is not None else None
    return found


def _lacking(schema: Schema, leaves: Sequence[StoredLeaf]) -> frozenset[int]:
    there = {stored.leaf.field_id for stored in leaves}
    return frozenset(leaf.field_id for leaf in leaves_of(schema)) - there


def _refuse(problems: Sequence[Problem], location: str) -> None:
    if problems:
        raise SchemaMismatchError(
            f"{location} does not fit the table",
            path=location,
            problems=problems,
            next_step="leave the file out, append its rows with their columns cast, or change the table's schema",
        )
