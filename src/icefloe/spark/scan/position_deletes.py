"""Position deletes in Spark's own scan: executors receive the deleted positions of each file as bitmaps and look up each row's position.

Deletion vectors and position delete files are read on the driver by `icefloe.datafile.deletes`. Up to `MOST_PLAIN_BITS` the positions are in one plain array of
bits, the fastest to look up; above that they stay compressed. Which files are read this way is decided in `read_strategy.py`.
Spec: Row-level Deletes; Deletion Vectors; Position Delete Files.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.kernel.puffin.deletion_vector import DeletionVector
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.spark.bridge.catalyst import array_element, column_of, data_type, expression_of, invoke, object_literal
from icefloe.spark.bridge.gateway import static_method

# Bits of the plain array, 16 MB: each executor receives it once, and each task has it in memory. A file's bits end with its last deleted position.
MOST_PLAIN_BITS = 2**27
# Positions below this fit into Spark's bitmaps, whose values are Java's ints.
MOST_POSITIONS = 2**31
# Threads that read delete files: on object stores each file costs a round trip.
LOAD_THREADS = 8
NUMBER_COLUMN, END_COLUMN = "icefloe deleted from", "icefloe deleted below"
# Spark's own class, and one of a library that it ships.
BIT_SET, _BITMAP = "org.apache.spark.util.collection.BitSet", "org.roaringbitmap.RoaringBitmap"
# Deleted positions compress little; 1 is the fastest level of deflate.
_DEFLATE_LEVEL = 1
# A 64-bit bitmap begins with the number of its 32-bit ones (8 bytes) and the upper half of the first one's values (4).
_HEAD = struct.Struct("<QI")
_WORD = 64


def load_positions(loader: DeleteLoader, tasks: Iterable[FileScanTask]) -> list[DeletionVector | None]:
    """Return the deleted positions of each task's file, in the order of the tasks; None where a file has none.

    Raises:
        NoSuchFileError, DataFileFormatError, PuffinFormatError: A delete file is missing or damaged.
    """
    with ThreadPoolExecutor(LOAD_THREADS, thread_name_prefix="icefloe-deletes") as pool:
        return list(pool.map(loader.positions_of, tasks))


@dataclass(frozen=True)
class DeletedRows:
    """The deleted positions of the files of one scan, in the order of the files; every position is below `MOST_POSITIONS`."""

    vectors: Sequence[DeletionVector | None]
    records: Sequence[int]  # the rows of each file, deleted ones too

    @cached_property
    def ends(self) -> list[int]:
        """Return for each file the position after its last deleted one."""
        return [0 if vector is None or not vector.cardinality else int(vector.bitmap.max()) + 1 for vector in self.vectors]

    @cached_property
    def has_bit_for_every_row(self) -> bool:
        """Return whether the plain array has a bit for every row, not only up to each file's last deleted one; then no bounds check is needed."""
        beyond = any(end > count for end, count in zip(self.ends, self.records, strict=True))
        return not beyond and sum(-(-count // _WORD) * _WORD for count in self.records) <= MOST_PLAIN_BITS

    @cached_property
    def starts(self) -> list[int]:
        """Return for each file its first bit among the bits of all files."""
        starts, size = [], 0
        for end in self.records if self.has_bit_for_every_row else self.ends:
            starts.append(size)
            size += -(-end // _WORD) * _WORD
        return [*starts, size]

    @property
    def is_plain(self) -> bool:
        """Return whether the bits are in one plain array."""
        return self.starts[-1] <= MOST_PLAIN_BITS

    def constants(self) -> tuple[StructType, dict[str, Any]]:
        """Return the constants per file that `test` needs.

        Returns:
            The Spark fields, and an Arrow array for each: the file's first bit, or its number where bitmaps stay compressed; and the position after its last
            deleted one.
        """
        numbers = self.starts[:-1] if self.is_plain else range(len(self.vectors))
        kinds = StructType([StructField(NUMBER_COLUMN, IntegerType(), False), StructField(END_COLUMN, LongType(), False)])
        return kinds, {NUMBER_COLUMN: pa.array(numbers, pa.int32()), END_COLUMN: pa.array(self.ends, pa.int64())}

    def test(self, spark: SparkSession, position: Column) -> Column:
        """Return the condition that the row at a position of its file is deleted, never null."""
        number, end = F.col(f"`{NUMBER_COLUMN}`"), F.col(f"`{END_COLUMN}`")
        starts = self.starts[:-1] if self.is_plain else [0] * len(self.vectors)
        packed = packed_bitmaps(list(zip(starts, map(narrow_bitmap, self.vectors), strict=True)))
        if self.is_plain:
            bits = object_literal(spark, static_method(spark, "BitmapDecoder", "bits", packed, self.starts[-1]), BIT_SET)
            is_set = _boolean_of(spark, bits, "get", (number + position).cast("int"))
            if self.has_bit_for_every_row:
                return is_set
        else:
            bitmap = array_element(spark, static_method(spark, "BitmapDecoder", "bitmaps", packed), _BITMAP, number)
            is_set = _boolean_of(spark, bitmap, "contains", position.cast("int"))
        # The comparison comes first: beyond the last deleted row there may be no bits, and positions may exceed Java's ints.
        return (position < end) & is_set


def _boolean_of(spark: SparkSession, target: Any, method: str, argument: Column) -> Column:
    return column_of(spark, invoke(spark, target, method, data_type(spark, "boolean"), [expression_of(spark, argument)]))


def packed_bitmaps(bitmaps: Sequence[tuple[int, bytes]]) -> bytes:
    """Pack 32-bit Roaring bitmaps, each with its first bit among the bits of all, in the form that `bridge/java/BitmapDecoder.java` reads."""
    packed = zlib.compressobj(_DEFLATE_LEVEL)
    parts = [packed.compress(struct.pack(">i", len(bitmaps)))]
    parts += [packed.compress(struct.pack(">i", start) + bitmap) for start, bitmap in bitmaps]
    return b"".join((*parts, packed.flush()))


def narrow_bitmap(vector: DeletionVector | None) -> bytes:
    """Return a deletion vector as one 32-bit Roaring bitmap.

    Raises:
        ValueError: A position does not fit into 32 bits.
    """
    if vector is None or not vector.cardinality:
        return BitMap().serialize()
    data = vector.bitmap.serialize()
    if _HEAD.unpack_from(data) != (1, 0):
        raise ValueError(f"a position is {vector.bitmap.max()}")
    return bytes(data[_HEAD.size :])


def fits(vector: DeletionVector | None) -> bool:
    """Return whether Spark's bitmaps can hold every position."""
    return vector is None or not vector.cardinality or int(vector.bitmap.max()) < MOST_POSITIONS
