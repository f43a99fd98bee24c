"""Rows deleted by one key that is a number or a time, left out of Spark's own scan: each row's key is looked up in generated code, without a join.

The deleted keys go along as sorted arrays, read on the driver; a bit for what a key has in its last places settles most rows before an array is looked through.
Which deletes are looked up this way, and what becomes of the others, is decided in `equality_deletes.py`. Spec: Equality Delete Files.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter

from icefloe.kernel.types import DateType, IcebergType, IntegerType, LongType, TimestampType, TimestamptzType
from icefloe.spark.bridge.catalyst import (
    array_element,
    column_of,
    data_type,
    expression_of,
    invoke,
    micros_of,
    object_literal,
    static_invoke,
)
from icefloe.spark.bridge.java_compiler import static_method
from icefloe.spark.scan.position_deletes import BIT_SET, packed_bitmaps

# The types whose values Spark has as whole numbers, and which are equal where those are.
NUMBERS = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)
# Keys of all lists together, 8 MB: they go to every executor once, and into the memory of every task. More keys are joined.
MOST_KEYS = 1_000_000
# Java's name for an array of longs.
_LONGS = "[J"
# Bits of the first test, 1 MB at the most; per key, so that few rows pass by chance.
_LEAST_BITS, _MOST_BITS, _BITS_PER_KEY = 2**10, 2**23, 32


@dataclass(frozen=True, slots=True)
class KeyList:
    """The deleted keys of some delete files: the numbers ascending, each once, and whether null is deleted."""

    numbers: NDArray[np.int64]
    has_null: bool

    @classmethod
    def of(cls, arrays: Iterable[Any]) -> "KeyList":
        """Of Arrow arrays of a type in `NUMBERS`, as the table has it."""
        found = list(arrays)
        numbers = [np.asarray(pc.drop_null(array).cast(_WHOLE.get(array.type, pa.int64())).cast(pa.int64())) for array in found]
        return cls(np.unique(np.concatenate([np.empty(0, np.int64), *numbers])), any(array.null_count for array in found))

    @classmethod
    def joined(cls, lists: Sequence["KeyList"]) -> "KeyList":
        """The keys that are in any of the lists."""
        numbers = [one.numbers for one in lists]
        return cls(np.unique(np.concatenate([np.empty(0, np.int64), *numbers])), any(one.has_null for one in lists))


# Arrow casts a date to no long at once.
_WHOLE = {pa.date32(): pa.int32()}


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """The deleted keys of one column. A row is looked up in one of the lists."""

    kind: IcebergType
    lists: tuple[KeyList, ...]

    def kept(self, spark: SparkSession, key: Column, place: Column | None) -> Column:
        """Whether a row's key is not deleted; never null. `place` says which list it is looked up in, None where there is but one.

        Raises:
            EngineError: as `static_method`.
        """
        found = ~self._found(spark, key, place)
        with_null = [number for number, one in enumerate(self.lists) if one.has_null]
        if not with_null:
            return key.isNull() | found
        if len(with_null) == len(self.lists) or place is None:
            return key.isNotNull() & found
        return F.when(key.isNull(), ~place.isin(with_null)).otherwise(found)

    def _found(self, spark: SparkSession, key: Column, place: Column | None) -> Column:
        """Whether a key is among the numbers; null where it is null."""
        if isinstance(self.kind, TimestampType | TimestamptzType):
            number = micros_of(spark, key, has_zone=isinstance(self.kind, TimestamptzType))
        else:
            number = (F.unix_date(key) if isinstance(self.kind, DateType) else key).cast("long")
        size, shift = self._bits()
        last_places = F.shiftrightunsigned(number, shift).bitwiseAND(F.lit(size - 1).cast("long")).cast("int")
        bits = static_method(spark, "BitmapDecoder", "bits", packed_bitmaps([(0, self._last_places(size, shift))]), size)
        lists = static_method(spark, "BitmapDecoder", "lists", self._packed())
        keys_of_file = object_literal(spark, lists[0], _LONGS) if place is None else array_element(spark, lists, _LONGS, place)
        arguments = [keys_of_file, expression_of(spark, number)]
        index = column_of(spark, static_invoke(spark, "java.util.Arrays", "binarySearch", data_type(spark, "int"), arguments))
        may_match = invoke(
            spark, object_literal(spark, bits, BIT_SET), "get", data_type(spark, "boolean"), [expression_of(spark, last_places)]
        )
        return column_of(spark, may_match) & (index >= 0)

    def _bits(self) -> tuple[int, int]:
        """How many bits there are for the first test, a power of two, and by how many places keys are shifted for it."""
        count = sum(len(one.numbers) for one in self.lists)
        size = 1 << max(count * _BITS_PER_KEY - 1, 1).bit_length()
        # Keys that are all multiples of a power of two, as of whole seconds, differ above its places alone.
        common = int(np.bitwise_or.reduce([np.bitwise_or.reduce(one.numbers, initial=0) for one in self.lists], initial=0))
        shift = (common & -common).bit_length() - 1 if common else 0
        return min(max(size, _LEAST_BITS), _MOST_BITS), shift

    def _last_places(self, size: int, shift: int) -> bytes:
        """The bitmap of what the keys have in their last places, below `size`."""
        places = [(one.numbers.view(np.uint64) >> np.uint64(shift)) & np.uint64(size - 1) for one in self.lists]
        return BitMap(np.concatenate([np.empty(0, np.uint64), *places]).astype(np.uint32)).serialize()

    def _packed(self) -> bytes:
        parts = [struct.pack(">i", len(self.lists))]
        for one in self.lists:
            parts += [struct.pack(">i", len(one.numbers)), one.numbers.astype(">i8").tobytes()]
        return b"".join(parts)
