"""Position deletes in Spark's own scan: executors receive the deleted positions of each file as bitmaps, and Icefloe's Parquet reader finds deleted rows.

The driver reads deletion vectors and position delete files with `icefloe.datafile.deletes`. In the tasks, `bridge/java/CountedParquet.java` reads the rows, and
adds a column with whether a row is deleted, by which the plan filters the rows.
`read_strategy.py` decides which files are read in this way.
Spec: Row-level Deletes; Deletion Vectors; Position Delete Files.
"""

import struct
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap
from pyspark import SparkContext
from pyspark.sql import SparkSession

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.bridge.gateway import new_object
from icefloe.spark.scan.metadata_column_values import OWN_PREFIX
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.puffin.deletion_vector import DeletionVector

# Positions below this fit in Spark's bitmaps, whose values are Java ints.
MOST_POSITIONS = 2**31
# The bytes of position delete files up to which the driver reads them for Spark's own scan. If there are more, the files are read in Spark's tasks by Python.
MOST_DELETE_BYTES = 256 * 1024 * 1024
# Threads that read delete files, because each file in an object store costs a round trip.
LOAD_THREADS = 8
# Estimated memory for the paths of a file and its delete files in a cache key.
BYTES_OF_A_KEY = 512
# The constant with a file's number among the files with deleted rows.
NUMBER_COLUMN = f"{OWN_PREFIX}file number"
# A 64-bit bitmap begins with the number of its 32-bit bitmaps (8 bytes), and the upper half of the values in the first of them (4 bytes).
_HEAD = struct.Struct("<QI")
_LENGTH = struct.Struct(">i")
# The position deletes of a file: no positions, positions that fit in Spark's bitmaps, or larger positions.
NONE, FITS, BEYOND = range(3)


class DeletedRows:
    """The deleted positions of the files of a scan, in the order of the files, and the Java object that brings them to the executors.

    Every position is below `MOST_POSITIONS`. Several scans may share an object, so that executors receive its positions only once.
    """

    def __init__(self, vectors: Sequence[DeletionVector | None], *, only_these: bool = False) -> None:
        """Create the object. With `only_these` a scan needs no other rows, so that row groups without a position are not read."""
        self.vectors = tuple(vectors)
        self.only_these = only_these
        self._sent: tuple[SparkContext, Any] | None = None

    @cached_property
    def count(self) -> int:
        """The number of deleted rows in all files."""
        return sum(vector.cardinality for vector in self.vectors if vector is not None)

    @cached_property
    def size(self) -> int:
        """The size of the bitmaps in bytes."""
        return len(self._pack())

    def positions(self, spark: SparkSession) -> Any:
        """Return the Java object `DeletedPositions`, which sends the positions to the executors.

        Raises:
            EngineError: The Java classes do not work on this version of Spark.
        """
        context = spark.sparkContext
        if self._sent is None or self._sent[0] is not context:
            self._sent = context, new_object(spark, "DeletedPositions", spark._jsparkSession, self._pack(), self.only_these)
        return self._sent[1]

    def _pack(self) -> bytes:
        return b"".join(part for vector in self.vectors for part in _with_length(narrow_bitmap(vector)))


@dataclass(frozen=True, slots=True)
class LoadedPositions:
    """The result of `load_positions`.

    Attributes:
        kinds: For each data file `NONE`, `FITS` or `BEYOND`; see `kind_of`.
        rows: The deleted positions of the data files with `FITS`, in their order.
    """

    kinds: NDArray[np.int64]
    rows: DeletedRows


def load_positions(loader: DeleteLoader, tasks: Iterable[FileScanTask]) -> LoadedPositions:
    """Read the deletion vectors and position delete files that apply to the data file of each task.

    Raises:
        NoSuchFileError, DataFileFormatError, PuffinFormatError: A delete file is missing or damaged.
    """
    with ThreadPoolExecutor(LOAD_THREADS, thread_name_prefix="icefloe-deletes") as pool:
        vectors = list(pool.map(loader.positions_of, tasks))
    kinds = np.array([kind_of(vector) for vector in vectors], np.int64)
    return LoadedPositions(kinds, DeletedRows([vector for vector, kind in zip(vectors, kinds, strict=True) if kind == FITS]))


def key_of_positions(tasks: Iterable[FileScanTask]) -> tuple[object, ...]:
    """Return a cache key for the deleted positions of tasks: the location of each data file, and the position deletes that apply to it."""
    return tuple(
        (
            task.file.file_path,
            *((file.file_path, file.content_offset) for file in task.delete_files if file.content is FileContent.POSITION_DELETES),
        )
        for task in tasks
    )


def _with_length(bitmap: bytes) -> tuple[bytes, bytes]:
    return _LENGTH.pack(len(bitmap)), bitmap


def kind_of(vector: DeletionVector | None) -> int:
    """Return `NONE` if no position is deleted, `FITS` if all positions fit in Spark's bitmaps, and `BEYOND` if a position is `MOST_POSITIONS` or above."""
    if vector is None or not vector.cardinality:
        return NONE
    return FITS if int(vector.bitmap.max()) < MOST_POSITIONS else BEYOND


def narrow_bitmap(vector: DeletionVector | None) -> bytes:
    """Convert a deletion vector to a serialized 32-bit Roaring bitmap; an empty bitmap for None.

    Raises:
        ValueError: A position does not fit in 32 bits.
    """
    if vector is None or not vector.cardinality:
        return BitMap().serialize()
    data = vector.bitmap.serialize()
    if _HEAD.unpack_from(data) != (1, 0):
        raise ValueError(f"a position is {vector.bitmap.max()}")
    return bytes(data[_HEAD.size :])


def too_many_positions(files: Iterable[DataFile]) -> str:
    """Return a reason not to read files with position deletes by Spark's own scan: there are too many bytes of position deletes. Empty if there are not."""
    return f"the position delete files have over {MOST_DELETE_BYTES:,} bytes" if position_delete_bytes(files) > MOST_DELETE_BYTES else ""


def position_delete_bytes(files: Iterable[DataFile]) -> int:
    """Return the number of bytes to read for the deletion vectors and position delete files among some delete files."""
    return sum(_bytes(file) for file in files if file.content is FileContent.POSITION_DELETES)


def _bytes(file: DataFile) -> int:
    """Return the number of bytes to read for a delete file: the size of its deletion vector, or otherwise of the whole file."""
    return file.file_size_in_bytes if file.content_size_in_bytes is None else file.content_size_in_bytes
