"""Theta sketches of columns, computed from batches of rows, in this process or in Spark's tasks.

`spec/puffin/theta_sketch.py` implements the sketches, and `spec/distinct_values.py` the hashes of values. Spec: Puffin file format.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.distinct_values import column_hashes
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.theta_sketch import EMPTY_SKETCH, ThetaSketch, sketch_from_bytes, union
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import PrimitiveType

# Threads that hash columns in parallel; most of the work is native code of numpy and Arrow.
_HASH_THREADS = 4


@dataclass(frozen=True, slots=True)
class SketchedColumn:
    """A column whose distinct values are counted: its type, and its path, the names from the top-level column down to the field."""

    kind: PrimitiveType
    path: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class FileSketcher:
    """A function that computes the sketches of the live rows of a data file. It can be pickled, so that Spark's tasks can run it.

    Attributes:
        io: The storage.
        schema: The table's schema.
        projection: The top-level columns that contain the counted columns.
        specs: Partition specs of the table, by id.
        name_mapping: Field ids for the columns of files without ids.
        deletes: Loader that caches delete files for other data files.
        columns: The columns whose values are counted.
    """

    io: FileIO
    schema: Schema
    projection: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None
    deletes: DeleteLoader
    columns: tuple[SketchedColumn, ...]

    def __call__(self, task: FileScanTask) -> list[bytes]:
        """Return a serialized sketch for each column, of the live rows of a scan task. Raises the errors of `read_task`."""
        batches = read_task(
            self.io,
            task,
            schema=self.schema,
            projection=self.projection,
            specs=self.specs,
            name_mapping=self.name_mapping,
            deletes=self.deletes,
        )
        return [sketch.to_bytes() for sketch in column_sketches(batches, self.columns)]


def merge_sketches(left: Sequence[bytes], right: Sequence[bytes]) -> list[bytes]:
    """Merge the serialized sketches of two files, column by column."""
    pairs = zip(left, right, strict=True)
    return [union((sketch_from_bytes(of_left), sketch_from_bytes(of_right))).to_bytes() for of_left, of_right in pairs]


def column_sketches(batches: Iterable[Any], columns: Sequence[SketchedColumn]) -> list[ThetaSketch]:
    """Compute a sketch of each column's values, without nulls.

    Args:
        batches: Record batches with the top-level columns.
        columns: The columns whose values are counted.

    Returns:
        The sketches, in the order of the columns.
    """
    sketches = [EMPTY_SKETCH] * len(columns)
    with ThreadPoolExecutor(_HASH_THREADS, thread_name_prefix="icefloe-hash") as pool:
        for batch in batches:
            hashes_of_columns = pool.map(lambda column, batch=batch: column_hashes(column.kind, _values(batch, column.path)), columns)
            sketches = [sketch.with_hashes(hashes) for sketch, hashes in zip(sketches, hashes_of_columns, strict=True)]
    return sketches


def _values(batch: Any, path: tuple[str, ...]) -> Any:
    """Return a column's values; null if a struct around them is null."""
    column = batch.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column
