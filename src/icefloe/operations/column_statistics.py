"""Statistics of a table's columns: numbers of distinct values, computed as theta sketches in a Puffin file; and their reader.

The sketches are `spec/puffin/theta_sketch.py`; statistics of partitions are `partition_statistics.py`.
Spec: Table Statistics; Puffin file format, `apache-datasketches-theta-v1` blob type.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from icefloe.commit.change_properties import property_requirements
from icefloe.commit.metadata_change import MetadataChange
from icefloe.datafile.column_sketches import FileSketcher, SketchedColumn, merge_sketches
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.errors import FormatError, IcefloeError, InvalidInputError, NoSuchSnapshotError, NotFoundError, StorageError
from icefloe.io.locations import scheme_of
from icefloe.operations.available_engines import IN_PROCESS, engine_choice
from icefloe.operations.data_scan import DataScan
from icefloe.operations.engine import READ_THREADS, tasks_of_bytes
from icefloe.operations.pending_change import Commit
from icefloe.operations.statistics_plan import StatisticsPlan
from icefloe.operations.table_handle import metadata_folder
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.statistics_file import StatisticsBlob, StatisticsFile
from icefloe.spec.metadata.statistics_updates import SetStatistics
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO, IdSource
from icefloe.spec.puffin.puffin_codec import ZSTD
from icefloe.spec.puffin.puffin_file import Blob, PuffinSource, in_memory_puffin, read_blob, read_file_metadata, write_puffin
from icefloe.spec.puffin.theta_sketch import BLOB_TYPE, EMPTY_SKETCH, NDV_PROPERTY, ThetaSketch, sketch_from_bytes
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField, PrimitiveType, StructType
from icefloe.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobStatistics:
    """The description of one blob of a statistics file.

    Attributes:
        type: The blob type, for example `apache-datasketches-theta-v1`.
        fields: The field ids of the columns that the blob describes.
        columns: The dotted names of these columns: their current names, or the last names of dropped columns.
        snapshot_id: The snapshot from which the blob was computed.
        sequence_number: The sequence number of this snapshot.
        properties: The properties of the blob.
        distinct_values: The number of distinct values (NDV) of a theta sketch; None for a blob of another type, which is not read.
    """

    type: str
    fields: tuple[int, ...]
    columns: tuple[str, ...]
    snapshot_id: int
    sequence_number: int
    properties: Mapping[str, str]
    distinct_values: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatistics:
    """The content of a snapshot's statistics file; the result of `TableReader.statistics`. Sizes are in bytes."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    blobs: tuple[BlobStatistics, ...]

    @property
    def distinct_values(self) -> dict[str, int]:
        """The numbers of distinct values other than null, by dotted column name. They are exact up to 4,096; greater ones have an error of a few percent."""
        return {blob.columns[0]: blob.distinct_values for blob in self.blobs if len(blob.columns) == 1 and blob.distinct_values is not None}


# ---- computing ----


def plan_statistics(scan: DataScan, table_name: str, columns: Sequence[str] | None) -> StatisticsPlan | None:
    """Return the files and columns that `compute_statistics` would read; None for a table without a snapshot."""
    snapshot = scan.snapshot()
    if snapshot is None:
        return None
    schema = scan.schema()
    names = tuple(".".join(schema.path_of(field.field_id) or ()) for field in _select_columns(schema, columns))
    tasks = tuple(scan.select(*names).request().plan.tasks()) if names else ()
    sizes = {task.file.file_path: task.file.file_size_in_bytes for task in tasks}
    return StatisticsPlan(
        table=table_name,
        of="data file",
        snapshot_id=snapshot.snapshot_id,
        columns=names,
        files=len(sizes),
        size_in_bytes=sum(sizes.values()),
    )


def compute_statistics(
    scan: DataScan, columns: Sequence[str] | None, ids: IdSource, commit: Commit, engine: str | None = None
) -> StatisticsFile | None:
    """Read columns of the scan's snapshot, write their sketches into a new Puffin file, and commit it as the statistics file of the snapshot.

    Blobs of the snapshot's old file for other columns, or of other types, are copied to the new file. If `engine` is None, Spark reads the columns if a session
    runs already or the files are large.

    Returns:
        The new statistics file; None for a table without a snapshot.
    """
    snapshot = scan.snapshot()
    if snapshot is None:
        return None
    schema = scan.schema()
    fields = _select_columns(schema, columns)
    sketches = _sketches(scan, schema, fields, engine)
    blobs = [_blob(field, sketch, snapshot) for field, sketch in zip(fields, sketches, strict=True)]
    metadata, computed = scan.metadata, {(blob.type, blob.fields) for blob in blobs}
    blobs += [blob for blob in _old_blobs(scan.io, metadata, snapshot) if (blob.type, blob.fields) not in computed]
    content, described = write_puffin(blobs, properties={"created-by": f"Icefloe version {__version__}"})
    file = StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=f"{metadata_folder(metadata)}/{snapshot.snapshot_id}-{ids.uuid()}.stats",
        file_size_in_bytes=len(content),
        file_footer_size_in_bytes=len(content) - max((blob.offset + blob.length for blob in described.blobs), default=4),
        blob_metadata=tuple(
            StatisticsBlob(
                type=blob.type,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                fields=blob.fields,
                properties=blob.properties,
            )
            for blob in described.blobs
        ),
    )
    try:
        scan.io.write(file.statistics_path, content)
    except BaseException:
        # The file may exist although writing it failed. If its deletion fails too, the first error is raised.
        with suppress(StorageError, NotFoundError):
            scan.io.delete(file.statistics_path)
        raise
    commit(MetadataChange(lambda _: (SetStatistics(file),), property_requirements(metadata), new_files=(file.statistics_path,)))
    return file


def _select_columns(schema: Schema, columns: Sequence[str] | None) -> list[NestedField]:
    """Return the columns with these names; if `columns` is None, all top-level columns of primitive types."""
    if columns is not None:
        return [_column(schema, name) for name in columns]
    return [field for field in schema.fields if isinstance(field.field_type, PrimitiveType)]


def _column(schema: Schema, name: str) -> NestedField:
    field = schema.find_field(name)
    path = schema.path_of(field.field_id) or ()
    above = [schema.find_field(".".join(path[:end])) for end in range(1, len(path))]
    if not isinstance(field.field_type, PrimitiveType) or not all(isinstance(outer.field_type, StructType) for outer in above):
        raise InvalidInputError(
            f"distinct values of {name} cannot be counted: it is of type {field.field_type}"
            + (", within a list or map" if isinstance(field.field_type, PrimitiveType) else ""),
            next_step="name columns of primitive types, or such fields of structs",
        )
    return field


def _sketches(scan: DataScan, schema: Schema, fields: Sequence[NestedField], engine: str | None) -> Sequence[ThetaSketch]:
    if not fields:
        return ()
    columns = [SketchedColumn(cast(PrimitiveType, field.field_type), schema.path_of(field.field_id) or ()) for field in fields]
    request = scan.select(*(".".join(column.path) for column in columns)).request()
    tasks = tuple(request.plan.tasks())
    sketcher = FileSketcher(
        io=request.io,
        schema=request.schema,
        projection=request.projection,
        specs=request.specs,
        name_mapping=request.name_mapping,
        deletes=DeleteLoader(request.io, schemas=request.schemas, name_mapping=request.name_mapping),
        columns=tuple(columns),
    )
    chosen = engine_choice().for_files(tasks, engine)
    if any(scheme_of(task.file.file_path) == "memory" for task in tasks):
        chosen = IN_PROCESS
    try:
        merged = chosen.map(
            sketcher,
            tasks,
            f"count distinct values of {request.table_name}",
            tasks=tasks_of_bytes(sum(task.length for task in tasks)),
            threads=READ_THREADS,
            combine=merge_sketches,
        )
        return [sketch_from_bytes(content) for content in next(merged, ())] or [EMPTY_SKETCH] * len(columns)
    except IcefloeError as error:
        error.table = error.table or request.table_name
        raise


def _blob(field: NestedField, sketch: ThetaSketch, snapshot: Snapshot) -> Blob:
    return Blob(
        type=BLOB_TYPE,
        fields=(field.field_id,),
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number,
        data=sketch.to_bytes(),
        compression_codec=ZSTD,
        properties={NDV_PROPERTY: str(sketch.ndv)},
    )


def _old_blobs(io: FileIO, metadata: TableMetadata, snapshot: Snapshot) -> Iterator[Blob]:
    """Yield the blobs of a snapshot's present statistics file. Nothing is yielded if the file cannot be read, because statistics can be computed again."""
    old = _file_of(metadata, snapshot.snapshot_id)
    if old is None:
        return
    try:
        source = _source(io, old)
        for blob in read_file_metadata(source).blobs:
            yield Blob(
                type=blob.type,
                fields=blob.fields,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                data=read_blob(source, blob),
                compression_codec=blob.compression_codec,
                properties=blob.properties,
            )
    except (NotFoundError, FormatError):
        return


# ---- reading ----


def read_statistics(metadata: TableMetadata, io: FileIO, table_name: str, snapshot_id: int | None) -> TableStatistics | None:
    """Return the statistics of a snapshot; None if it has none.

    If `snapshot_id` is None, it is the newest snapshot with statistics among the current snapshot and its ancestors. Nearly everything is in the metadata; the
    statistics file is opened only for sketches whose number of distinct values (NDV) is missing there.

    Raises:
        NoSuchSnapshotError: the snapshot is not in the table.
        NoSuchFileError, PuffinFormatError: the statistics file had to be opened, and is missing or damaged.
    """
    file = find_statistics(metadata, table_name, snapshot_id)
    if file is None:
        return None
    names = column_names(metadata)
    return TableStatistics(
        snapshot_id=file.snapshot_id,
        statistics_path=file.statistics_path,
        file_size_in_bytes=file.file_size_in_bytes,
        file_footer_size_in_bytes=file.file_footer_size_in_bytes,
        blobs=tuple(
            BlobStatistics(
                type=blob.type,
                fields=blob.fields,
                columns=tuple(names.get(field_id, f"field {field_id}") for field_id in blob.fields),
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                properties=dict(blob.properties),
                distinct_values=_distinct_values(io, file, blob),
            )
            for blob in file.blob_metadata
        ),
    )


def find_statistics(metadata: TableMetadata, table_name: str, snapshot_id: int | None) -> StatisticsFile | None:
    """Return the entry of the statistics file that `read_statistics` reads; None if there is none. Raises `NoSuchSnapshotError`."""
    if snapshot_id is None:
        current = metadata.current_snapshot()
        lineage = ancestors(metadata, current.snapshot_id if current else None)
        return next((file for snapshot in lineage if (file := _file_of(metadata, snapshot.snapshot_id))), None)
    if metadata.snapshots.position(snapshot_id) is None:
        raise NoSuchSnapshotError(f"{table_name} has no snapshot {snapshot_id}", table=table_name, snapshot_id=snapshot_id)
    return _file_of(metadata, snapshot_id)


def column_names(metadata: TableMetadata) -> dict[int, str]:
    """Return the dotted name of every column of the table, by field id: the current name or, for a dropped column, its last name."""
    names: dict[int, str] = {}
    for schema in (*metadata.schemas, metadata.schema()):
        names.update({field_id: schema.find_column_name(field_id) or "" for field_id in schema.field_ids})
    return names


def _file_of(metadata: TableMetadata, snapshot_id: int) -> StatisticsFile | None:
    return next((file for file in metadata.statistics if file.snapshot_id == snapshot_id), None)


def _distinct_values(io: FileIO, file: StatisticsFile, blob: StatisticsBlob) -> int | None:
    if blob.type != BLOB_TYPE:
        return None
    text = blob.properties.get(NDV_PROPERTY, "")
    if text.isascii() and text.isdigit():
        return int(text)
    source = _source(io, file)
    stored = next((other for other in read_file_metadata(source).blobs if (other.type, other.fields) == (blob.type, blob.fields)), None)
    return None if stored is None else sketch_from_bytes(read_blob(source, stored)).ndv


def _source(io: FileIO, file: StatisticsFile) -> PuffinSource:
    return in_memory_puffin(io.read(file.statistics_path), file.statistics_path)
