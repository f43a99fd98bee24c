"""Delete files that PyArrow and plain Python write, not the writers under test, for tests of reading them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.puffin.deletion_vector import deletion_vector_from_positions, write_deletion_vectors
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema

POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={b"PARQUET:field_id": b"2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={b"PARQUET:field_id": b"2147483545"}),
    ]
)


def described(path: Path, content: FileContent, rows: int, **more: Any) -> DataFile:
    return DataFile(
        file_path=str(path),
        file_format=FileFormat.PARQUET,
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
        content=content,
        **more,
    )


def position_deletes(
    path: Path, deleted: Iterable[tuple[str, int]], *, row_group_size: int = 3, schema: pa.Schema = POSITIONS, **more: Any
) -> DataFile:
    """Write a position delete file of pairs of data file and position, sorted as the spec requires."""
    pairs = sorted(deleted)
    table = pa.Table.from_pylist([{"file_path": name, "pos": pos} for name, pos in pairs], schema=schema)
    pq.write_table(table, path, row_group_size=row_group_size)
    return described(path, FileContent.POSITION_DELETES, len(pairs), **more)


def equality_deletes(path: Path, schema: Schema, equality_ids: Sequence[int], rows: Sequence[dict[str, Any]], **more: Any) -> DataFile:
    """Write an equality delete file with the columns of `schema`, whose keys are `equality_ids`."""
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema_to_arrow(schema)), path)
    return described(path, FileContent.EQUALITY_DELETES, len(rows), equality_ids=tuple(equality_ids), **more)


def vectors(path: Path, positions: dict[str, Sequence[int]], **more: Any) -> list[DataFile]:
    """Write one Puffin file with a deletion vector for each data file, and return the entry of each."""
    content, locations = write_deletion_vectors(
        {name: deletion_vector_from_positions(found) for name, found in positions.items()}, properties={}
    )
    path.write_bytes(content)
    return [
        DataFile(
            file_path=str(path),
            file_format=FileFormat.PUFFIN,
            record_count=location.record_count,
            file_size_in_bytes=len(content),
            content=FileContent.POSITION_DELETES,
            referenced_data_file=location.referenced_data_file,
            content_offset=location.content_offset,
            content_size_in_bytes=location.content_size_in_bytes,
            **more,
        )
        for location in locations
    ]
