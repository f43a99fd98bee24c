"""Contents of one data file: its Parquet footer, and its manifest entry.

Spec: Data File Fields; Appendix A, Parquet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icefloe.datafile.parquet.parquet_footer import open_parquet
from icefloe.datafile.stored_batch import RESTORE
from icefloe.datafile.stored_file import stored_counts
from icefloe.display.report import Column, Facts, Grid, Part, Prose, Report
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import DataFileFormatError, UnsupportedError
from icefloe.formatting import count_text, size_text
from icefloe.inspect.decoded import columns_by_id, partition_columns
from icefloe.inspect.lookup import existing_snapshot_of, position_of
from icefloe.inspect.manifest_contents import EntryOverview, entry_overview, statistics_grid
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.pyiceberg_compat import TableManifest
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.manifest.entry import ManifestEntry

FIELD_ID_KEY = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChunk:
    """One column of one row group. Sizes are in bytes; statistics are None if the footer has none."""

    field_id: int | None
    name: str
    physical_type: str
    codec: str
    encodings: tuple[str, ...]
    compressed_size: int
    uncompressed_size: int
    values: int
    nulls: int | None
    lower: str | None
    upper: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A row group. `size` is the uncompressed size in bytes, as the footer states it."""

    rows: int
    size: int
    columns: tuple[ColumnChunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFooter:
    """The footer of a Parquet file. `footer_size` is in bytes."""

    created_by: str
    format_version: str
    footer_size: int
    rows: int
    row_groups: tuple[RowGroup, ...]
    key_value_metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DataFileContents(Reportable):
    """A data file's footer and manifest entry. The footer is None if the file is not Parquet.

    `stored_size` is the actual size of the file in bytes, and `stored_rows` its actual number of rows; None for a Puffin file, and for a file that cannot be
    opened.
    """

    table: str
    location: str
    snapshot_id: int
    manifest_path: str
    entry: EntryOverview
    footer: ParquetFooter | None
    stored_size: int
    stored_rows: int | None

    @property
    def has_faults(self) -> bool:
        """Whether the size or the number of rows of the file differs from its manifest entry."""
        return self.stored_size != self.entry.file_size_in_bytes or self.stored_rows not in (None, self.entry.record_count)

    def report(self, most: int | None = MOST_LINES) -> Report:
        entry = self.entry
        vector = (
            (("vector", f"{size_text(entry.content_size_in_bytes)} at byte {entry.content_offset:,}"),)
            if entry.content_offset is not None
            else ()
        )
        facts = Facts(
            (
                ("file", entry.file_path),
                ("size", size_text(entry.file_size_in_bytes)),
                *self._differences(),
                ("rows", count_text(entry.record_count)),
                ("partition", ", ".join(f"{name} = {value}" for name, value in entry.partition.items()) or "none"),
                ("manifest", self.manifest_path),
                ("status in manifest", f"{entry.status}, sequence number {entry.sequence_number}"),
                *((("deletes", entry.deletes),) if entry.deletes is not None else ()),
                *vector,
                *((("first row id", f"{entry.first_row_id:,}"),) if entry.first_row_id is not None else ()),
            )
        )
        parts: list[Part] = [facts]
        if self.has_faults:
            parts.append(
                Prose("The file is not the one that was committed: its size or its number of rows is not that of its manifest entry.")
            )
        if self.footer is None:
            parts.append(Prose(f"The file is {entry.file_format}: only Parquet footers are read."))
        else:
            parts += _footer_parts(self.footer, most)
        if entry.columns:
            parts.append(statistics_grid("the same columns in the manifest", entry.columns))
        return Report(f"{'data' if entry.deletes is None else 'delete'} file of {self.table}", tuple(parts))

    def _differences(self) -> Iterator[tuple[str, str]]:
        """Yield the actual size and the actual number of rows of the file if they differ from the manifest entry."""
        if self.stored_size != self.entry.file_size_in_bytes:
            yield "size on disk", f"{self.stored_size:,} bytes; the manifest states {self.entry.file_size_in_bytes:,}"
        if self.stored_rows is not None and self.stored_rows != self.entry.record_count:
            yield "rows in the file", f"{self.stored_rows:,}; the manifest states {self.entry.record_count:,}"


def data_file(reader: TableReader, which: str | int = 1, snapshot_id: int | None = None) -> DataFileContents:
    """Return the contents of one live data file or delete file of a snapshot.

    Args:
        reader: The table.
        which: The file: its number in the order of the manifests, from 1; its path; or a part of its path.
        snapshot_id: The snapshot; None for the current one.

    Returns:
        The footer and the manifest entry of the file.

    Raises:
        NoSuchSnapshotError: The snapshot does not exist.
        NoSuchFileError: No file matches, or a file that the metadata names does not exist.
        InvalidInputError: Several files match.
        AvroFormatError: A manifest or manifest list is damaged.
        ManifestFormatError: A manifest or manifest list violates the format.
        DataFileFormatError: The file is damaged, or is not Parquet although its entry states it.
    """
    snapshot = existing_snapshot_of(reader, snapshot_id)
    entries = list(_live_entries(reader, snapshot.manifests(reader.io)))
    manifest, entry = entries[position_of([entry.data_file.file_path for _, entry in entries], str(which), "data file", reader.full_name)]
    return data_file_contents(reader, snapshot.snapshot_id, manifest, entry)


def data_file_contents(reader: TableReader, snapshot_id: int, manifest: TableManifest, entry: ManifestEntry) -> DataFileContents:
    """Return the contents of the file of a manifest entry.

    Args:
        reader: The table.
        snapshot_id: The snapshot that has the manifest.
        manifest: The manifest.
        entry: The entry in the manifest.

    Raises:
        NoSuchFileError: The file does not exist.
        DataFileFormatError: The file is damaged, or is not Parquet although its entry states it.
    """
    path = entry.data_file.file_path
    footer = parquet_footer(reader, path) if entry.data_file.file_format is FileFormat.PARQUET else None
    partition = partition_columns(reader.metadata, manifest.partition_spec_id)
    return DataFileContents(
        table=reader.full_name,
        location=reader.location(),
        snapshot_id=snapshot_id,
        manifest_path=manifest.manifest_path,
        entry=entry_overview(entry, partition, columns_by_id(reader.metadata), reader.location()),
        footer=footer,
        stored_size=reader.io.size(path),
        stored_rows=_other_rows(reader, entry.data_file) if footer is None else footer.rows,
    )


def _other_rows(reader: TableReader, file: DataFile) -> int | None:
    """Return the number of rows of a file that is not Parquet; None for a Puffin file, and for a file that cannot be opened."""
    try:
        return stored_counts(reader.io, file).rows
    except UnsupportedError:
        return None


def parquet_footer(reader: TableReader, path: str) -> ParquetFooter:
    """Read the footer of a Parquet file.

    Raises:
        NoSuchFileError: The file does not exist.
        DataFileFormatError: The file is truncated or is not Parquet.
    """
    with reader.io.open_input(path) as source:
        try:
            file = open_parquet(source, path)
            return _footer(file.metadata, list(_leaf_ids(file.schema_arrow)))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataFileFormatError(f"the footer cannot be read: {error}", path=path, next_step=RESTORE) from error


def _footer(metadata: Any, ids: list[int | None]) -> ParquetFooter:
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    return ParquetFooter(
        created_by=metadata.created_by,
        format_version=str(metadata.format_version),
        footer_size=metadata.serialized_size,
        rows=metadata.num_rows,
        row_groups=tuple(_row_group(group, ids) for group in groups),
        key_value_metadata={
            key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for key, value in (metadata.metadata or {}).items()
            # Arrow's own copy of the schema is binary, and has no information beyond the columns.
            if key != b"ARROW:schema"
        },
    )


def _live_entries(reader: TableReader, manifests: list[TableManifest]) -> Iterator[tuple[TableManifest, ManifestEntry]]:
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(reader.io):
            yield manifest, entry


def _leaf_ids(schema: Any) -> Iterator[int | None]:
    """Yield the field id of every leaf column, depth first: the order of the column chunks."""
    for field in schema:
        yield from _ids_below(field)


def _ids_below(field: Any) -> Iterator[int | None]:
    kind = field.type
    inner: list[Any] = []
    if pa.types.is_struct(kind):
        inner = [kind.field(index) for index in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        inner = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = [kind.value_field]
    for child in inner:
        yield from _ids_below(child)
    if not inner:
        text = (field.metadata or {}).get(FIELD_ID_KEY)
        yield int(text) if text else None


def _row_group(group: Any, ids: list[int | None]) -> RowGroup:
    chunks = [group.column(index) for index in range(group.num_columns)]
    numbers = ids if len(ids) == len(chunks) else [None] * len(chunks)
    return RowGroup(
        rows=group.num_rows,
        size=group.total_byte_size,
        columns=tuple(_chunk(chunk, field_id) for chunk, field_id in zip(chunks, numbers, strict=True)),
    )


def _chunk(chunk: Any, field_id: int | None) -> ColumnChunk:
    statistics = chunk.statistics
    has_bounds = statistics is not None and statistics.has_min_max
    return ColumnChunk(
        field_id=field_id,
        name=chunk.path_in_schema,
        physical_type=chunk.physical_type,
        codec=chunk.compression,
        encodings=tuple(sorted(chunk.encodings)),
        compressed_size=chunk.total_compressed_size,
        uncompressed_size=chunk.total_uncompressed_size,
        values=chunk.num_values,
        nulls=statistics.null_count if statistics is not None and statistics.has_null_count else None,
        lower=_bound_text(statistics, "min") if has_bounds else None,
        upper=_bound_text(statistics, "max") if has_bounds else None,
    )


def _bound_text(statistics: Any, which: str) -> str | None:
    """Return a bound of the footer as text: as a value of its logical type if Arrow supports it, otherwise of its physical type."""
    try:
        value = getattr(statistics, which)
    except (pa.ArrowException, ValueError, OverflowError):
        value = getattr(statistics, f"{which}_raw")
    return value.hex() if isinstance(value, bytes) else str(value)


def _footer_parts(footer: ParquetFooter, most: int | None) -> list[Part]:
    facts = Facts(
        (
            ("written by", footer.created_by),
            ("Parquet version", footer.format_version),
            ("footer", size_text(footer.footer_size)),
            ("rows", count_text(footer.rows)),
            ("row groups", count_text(len(footer.row_groups))),
            *((f"key {name}", value if len(value) < 100 else f"{value[:100]} …") for name, value in footer.key_value_metadata.items()),
        ),
        "the file's own footer",
    )
    # With a limit, the first row group suffices to show how the file was written.
    shown = footer.row_groups if most is None else footer.row_groups[:1]
    return [facts, *(_row_group_grid(number, group) for number, group in enumerate(shown, start=1))]


def _row_group_grid(number: int, group: RowGroup) -> Grid:
    columns = (
        Column("id", is_number=True, rank=5),
        Column("column", whole=True),
        Column("type", rank=3),
        Column("codec", rank=4),
        Column("encodings", rank=6),
        Column("stored", is_number=True, rank=1),
        Column("unpacked", is_number=True, rank=5),
        Column("nulls", is_number=True, rank=2),
        Column("least"),
        Column("greatest"),
    )
    rows = tuple(
        (
            "-" if chunk.field_id is None else str(chunk.field_id),
            chunk.name,
            chunk.physical_type,
            chunk.codec,
            ", ".join(chunk.encodings),
            size_text(chunk.compressed_size),
            size_text(chunk.uncompressed_size),
            "-" if chunk.nulls is None else f"{chunk.nulls:,}",
            "-" if chunk.lower is None else chunk.lower,
            "-" if chunk.upper is None else chunk.upper,
        )
        for chunk in group.columns
    )
    return Grid(f"row group {number}: {count_text(group.rows, 'row')}, {size_text(group.size)} unpacked", columns, rows)
