"""Equality deletes on one numeric or temporal column in Spark's own scan: generated code looks up the key of each row, without a join.

The driver reads the deleted keys, and executors receive them as sorted arrays. A bitmap of the keys' low bits excludes most rows before an array is searched.
`equality_deletes.py` decides which equality deletes are looked up in this way, and joins all other deletes. Spec: Equality Delete Files.
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
from icefloe.spark.bridge.gateway import static_method
from icefloe.spec.types import DateType, IcebergType, IntegerType, LongType, TimestampType, TimestamptzType

# The types whose values Spark represents as whole numbers, so that equal values are equal numbers.
NUMBERS = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)
# The maximum number of keys in all lists together, 8 MB: every executor receives them once, and has them in memory. If there are more keys, they are joined.
MOST_KEYS = 1_000_000
# Java's name for an array of longs.
_LONGS = "[J"
_BIT_SET = "org.apache.spark.util.collection.BitSet"
# The maximum size of the bitmap, 1 MB, and the bits per key, which keep false positives rare.
_LEAST_BITS, _MOST_BITS, _BITS_PER_KEY = 2**10, 2**23, 32


@dataclass(frozen=True, slots=True)
class KeyList:
    """The keys that some delete files delete: distinct numbers in ascending order, and whether rows with a null key are deleted too."""

    numbers: NDArray[np.int64]
    has_null: bool

    @classmethod
    def of(cls, arrays: Iterable[Any]) -> "KeyList":
        """Create a list from the keys in Arrow arrays, all of which have the Arrow type of one Iceberg type in `NUMBERS`."""
        arrays = list(arrays)
        numbers = [np.asarray(pc.drop_null(array).cast(_WHOLE.get(array.type, pa.int64())).cast(pa.int64())) for array in arrays]
        return cls(np.unique(np.concatenate([np.empty(0, np.int64), *numbers])), any(array.null_count for array in arrays))

    @classmethod
    def union(cls, lists: Sequence["KeyList"]) -> "KeyList":
        """Return a list with the keys of all given lists."""
        numbers = [key_list.numbers for key_list in lists]
        return cls(np.unique(np.concatenate([np.empty(0, np.int64), *numbers])), any(key_list.has_null for key_list in lists))


# Arrow cannot cast dates to long directly, but by way of int.
_WHOLE = {pa.date32(): pa.int32()}


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """The deleted keys of one column, in one or more lists, because different delete files apply to different data files.

    A row is looked up in the one list that applies to its data file.
    """

    kind: IcebergType
    lists: tuple[KeyList, ...]

    def is_not_deleted(self, spark: SparkSession, key: Column, list_index: Column | None) -> Column:
        """Return a condition that is true if the key of a row is not deleted, and otherwise false, never null.

        Args:
            spark: A classic session.
            key: The key of the row.
            list_index: The index of the list that applies to the row; None if there is only one list.

        Raises:
            EngineError: The Java classes do not work on this version of Spark.
        """
        is_absent = ~self._is_deleted(spark, key, list_index)
        with_null = [index for index, key_list in enumerate(self.lists) if key_list.has_null]
        if not with_null:
            return key.isNull() | is_absent
        if len(with_null) == len(self.lists) or list_index is None:
            return key.isNotNull() & is_absent
        return F.when(key.isNull(), ~list_index.isin(with_null)).otherwise(is_absent)

    def _is_deleted(self, spark: SparkSession, key: Column, list_index: Column | None) -> Column:
        """Return a condition that is true if a key is among the deleted numbers, and null if the key is null."""
        if isinstance(self.kind, TimestampType | TimestamptzType):
            number = micros_of(spark, key, has_zone=isinstance(self.kind, TimestamptzType))
        else:
            number = (F.unix_date(key) if isinstance(self.kind, DateType) else key).cast("long")
        size, shift = self._bits()
        low_bits = F.shiftrightunsigned(number, shift).bitwiseAND(F.lit(size - 1).cast("long")).cast("int")
        bits = static_method(spark, "BitmapDecoder", "bits", self._low_bits(size, shift), size)
        lists = static_method(spark, "BitmapDecoder", "lists", self._pack())
        keys_of_file = object_literal(spark, lists[0], _LONGS) if list_index is None else array_element(spark, lists, _LONGS, list_index)
        arguments = [keys_of_file, expression_of(spark, number)]
        index = column_of(spark, static_invoke(spark, "java.util.Arrays", "binarySearch", data_type(spark, "int"), arguments))
        may_match = invoke(
            spark, object_literal(spark, bits, _BIT_SET), "get", data_type(spark, "boolean"), [expression_of(spark, low_bits)]
        )
        return column_of(spark, may_match) & (index >= 0)

    def _bits(self) -> tuple[int, int]:
        """Return the size of the bitmap in bits, a power of two, and by how many bits keys are shifted right before their low bits index it."""
        count = sum(len(key_list.numbers) for key_list in self.lists)
        size = 1 << max(count * _BITS_PER_KEY - 1, 1).bit_length()
        # If all keys are multiples of a power of two, for example whole seconds, they have equal low bits, so that these are shifted out.
        common = int(np.bitwise_or.reduce([np.bitwise_or.reduce(key_list.numbers, initial=0) for key_list in self.lists], initial=0))
        shift = (common & -common).bit_length() - 1 if common else 0
        return min(max(size, _LEAST_BITS), _MOST_BITS), shift

    def _low_bits(self, size: int, shift: int) -> bytes:
        """Return a serialized Roaring bitmap with `(key >> shift) % size` of each deleted key."""
        low_bits = [(key_list.numbers.view(np.uint64) >> np.uint64(shift)) & np.uint64(size - 1) for key_list in self.lists]
        return BitMap(np.concatenate([np.empty(0, np.uint64), *low_bits]).astype(np.uint32)).serialize()

    def _pack(self) -> bytes:
        parts = [struct.pack(">i", len(self.lists))]
        for key_list in self.lists:
            parts += [struct.pack(">i", len(key_list.numbers)), key_list.numbers.astype(">i8").tobytes()]
        return b"".join(parts)
