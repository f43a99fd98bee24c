"""Partition transforms: functions from a column's value to a partition value, for one value and for a whole column.

Partition specs are in `partition_spec.py`; `expressions/projections.py` projects predicates through a transform. Values are physical, see `values.py`.
Spec: Partition Transforms; Bucket Transform Details; Truncate Transform Details; Appendix B.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import InvalidPartitionSpecError, UnsupportedFeatureError
from icefloe.spec import dates_and_times as iso
from icefloe.spec.arrow_values import array_of_chunks, numbers_array, numpy_of
from icefloe.spec.literals import INTEGER_RANGES, NANO_TYPES
from icefloe.spec.partitioning.murmur3 import hash_bytes, hash_decimals, hash_longs, hash_texts
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icefloe.spec.values import decimal_of, to_bytes, to_human, unscaled_value

_TIMESTAMPS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_WHOLE_NUMBERS = (IntegerType, LongType, DateType, TimeType, *_TIMESTAMPS)
_BUCKETED = (*_WHOLE_NUMBERS, DecimalType, StringType, UUIDType, FixedType, BinaryType)
_TRUNCATED = (IntegerType, LongType, DecimalType, StringType, BinaryType)


@dataclass(frozen=True)
class Transform(ABC):
    """A function from a source value to a partition value. A null stays null. `str()` returns the text in the specification, such as `bucket[16]`."""

    # Whether a <= b implies apply(a) <= apply(b).
    preserves_order: ClassVar[bool] = False
    # The suffix that Java appends to the column's name for a partition field without a name.
    name_suffix: ClassVar[str] = ""

    @abstractmethod
    def can_transform(self, kind: IcebergType) -> bool:
        """Return True if a column of this type may be the source."""

    def result_type(self, kind: PrimitiveType) -> PrimitiveType:
        """Return the type of the partition values of a source of this type."""
        return kind

    @abstractmethod
    def apply(self, kind: PrimitiveType, value: Any) -> Any:
        """Return the partition value of one physical value of type `kind`; None for None."""

    @abstractmethod
    def apply_array(self, kind: PrimitiveType, array: Any) -> Any:
        """Return the partition values of an Arrow array or chunked array of the column's Arrow type, as one Arrow array.

        The result is int32 for bucket, year, month and hour, date32 for day, and the type of `array` for identity, truncate and void.
        """

    def to_human(self, result_type: PrimitiveType, value: Any) -> str:
        """Return a partition value as text for paths and messages; the same text as Java's."""
        return to_human(result_type, value)

    def transform(self, source: PrimitiveType) -> Callable[[Any], Any]:
        """Return the function from a physical value of one type to its partition value, as in PyIceberg.

        Args:
            source: The type of the source column.
        """
        return partial(self.apply, source)

    def to_human_string(self, source: PrimitiveType, value: Any) -> str:
        """Return a partition value as text. It is `to_human` with the type of the source column as argument, as in PyIceberg.

        Args:
            source: The type of the source column.
            value: The partition value.
        """
        return self.to_human(self.result_type(source), value)


@dataclass(frozen=True)
class IdentityTransform(Transform):
    """The transform whose partition value is the source value itself."""

    preserves_order: ClassVar[bool] = True

    def can_transform(self, kind: IcebergType) -> bool:
        """Return True if a column of this type may be the source."""
        return isinstance(kind, PrimitiveType) and not isinstance(kind, GeometryType | GeographyType)

    def apply(self, kind: PrimitiveType, value: Any) -> Any:  # noqa: ARG002
        """Return the partition value of one physical value."""
        return value

    def apply_array(self, kind: PrimitiveType, array: Any) -> Any:  # noqa: ARG002
        """Return the partition values of an Arrow array."""
        return _plain(array)

    def __str__(self) -> str:
        return "identity"


@dataclass(frozen=True)
class VoidTransform(Transform):
    """The transform whose partition value is always null. It replaces a dropped partition field in a version 1 spec."""

    name_suffix: ClassVar[str] = "null"

    def can_transform(self, kind: IcebergType) -> bool:  # noqa: ARG002
        """Return True if a column of this type may be the source."""
        return True

    def apply(self, kind: PrimitiveType, value: Any) -> None:  # noqa: ARG002
        """Return the partition value of one physical value."""
        return

    def apply_array(self, kind: PrimitiveType, array: Any) -> Any:  # noqa: ARG002
        """Return the partition values of an Arrow array."""
        return pa.nulls(len(array), array.type)

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True)
class BucketTransform(Transform):
    """The transform whose partition value is the hash of the source value, modulo `num_buckets`."""

    num_buckets: int
    name_suffix: ClassVar[str] = "bucket"

    def __post_init__(self) -> None:
        _check_parameter("bucket", self.num_buckets)

    def can_transform(self, kind: IcebergType) -> bool:
        """Return True if a column of this type may be the source."""
        return isinstance(kind, _BUCKETED)

    def result_type(self, kind: PrimitiveType) -> PrimitiveType:  # noqa: ARG002
        """Return the type of the partition values."""
        return IntegerType()

    def apply(self, kind: PrimitiveType, value: Any) -> int | None:
        """Return the partition value of one physical value."""
        if value is None:
            return None
        if isinstance(kind, NANO_TYPES):
            value //= iso.NANOS_PER_MICRO
        # Integers of all types are hashed as longs, so that a promoted column keeps its buckets. Spec: Appendix B.
        data = to_bytes(LongType() if isinstance(kind, _WHOLE_NUMBERS) else kind, value)
        return (hash_bytes(data) & 0x7FFFFFFF) % self.num_buckets

    def apply_array(self, kind: PrimitiveType, array: Any) -> Any:
        """Return the partition values of an Arrow array."""
        plain = _plain(array)
        if isinstance(kind, _WHOLE_NUMBERS):
            hashes = hash_longs(_hashed_numbers(kind, _whole_numbers(kind, plain)))
        elif isinstance(kind, DecimalType):
            hashes = hash_decimals(plain)
        else:
            hashes = hash_texts(plain)
        buckets = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % self.num_buckets
        return _mask_nulls(buckets, pa.int32(), plain)

    def __str__(self) -> str:
        return f"bucket[{self.num_buckets}]"


@dataclass(frozen=True)
class TruncateTransform(Transform):
    """The transform that rounds numbers down to a multiple of `width`, and cuts off strings and binary values after `width` code points or bytes.

    Decimals are rounded down to a multiple of `width` units of the last digit.
    """

    width: int
    preserves_order: ClassVar[bool] = True
    name_suffix: ClassVar[str] = "trunc"

    def __post_init__(self) -> None:
        _check_parameter("truncate", self.width)

    def can_transform(self, kind: IcebergType) -> bool:
        """Return True if a column of this type may be the source."""
        return isinstance(kind, _TRUNCATED)

    def apply(self, kind: PrimitiveType, value: Any) -> Any:
        """Return the partition value of one physical value."""
        if value is None:
            return None
        if isinstance(kind, DecimalType):
            number = unscaled_value(value, kind.scale)
            return decimal_of(number - number % self.width, kind.scale)
        if isinstance(kind, IntegerType | LongType):
            low, high = INTEGER_RANGES[type(kind)]
            return (value - value % self.width - low) % (high - low + 1) + low
        return value[: self.width]

    def apply_array(self, kind: PrimitiveType, array: Any) -> Any:
        """Return the partition values of an Arrow array."""
        plain = _plain(array)
        if isinstance(kind, StringType):
            return pc.utf8_slice_codeunits(plain, 0, self.width)
        if isinstance(kind, BinaryType):
            return pc.binary_slice(plain, 0, self.width)
        if isinstance(kind, DecimalType):
            return self._truncate_decimals(kind, plain)
        numbers = _whole_numbers(kind, plain)
        return _mask_nulls((numbers - numbers % self.width).astype(plain.type.to_pandas_dtype()), plain.type, plain)

    def _truncate_decimals(self, kind: DecimalType, array: Any) -> Any:
        encoded = array.dictionary_encode()
        try:
            results = pa.array([self.apply(kind, value) for value in encoded.dictionary.to_pylist()], array.type)
        except pa.ArrowInvalid as error:
            raise InvalidPartitionSpecError(f"a value near the least {kind} has no {self}: the result would have one digit more") from error
        return results.take(encoded.indices)

    def wrapped_result(self, kind: PrimitiveType) -> int | None:
        """Return the single partition value that does not follow the order of the source values of an int or long column; None if all values do.

        For the smallest source values, below the least multiple of the width in the type, the subtraction overflows, as in Java, and gives this large result.
        Code that turns a range of source values into a range of results must handle it separately.
        """
        if not isinstance(kind, IntegerType | LongType):
            return None
        low, _ = INTEGER_RANGES[type(kind)]
        return int(self.apply(kind, low)) if low % self.width else None

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


@dataclass(frozen=True)
class TimeTransform(Transform):
    """A transform whose partition value is the number of whole units of time since 1970, rounded down, also before 1970."""

    preserves_order: ClassVar[bool] = True
    # numpy's code of the unit.
    unit: ClassVar[str]

    def can_transform(self, kind: IcebergType) -> bool:
        """Return True if a column of this type may be the source."""
        return isinstance(kind, (DateType, *_TIMESTAMPS))

    def result_type(self, kind: PrimitiveType) -> PrimitiveType:  # noqa: ARG002
        """Return the type of the partition values."""
        return IntegerType()

    def apply(self, kind: PrimitiveType, value: Any) -> int | None:
        """Return the partition value of one physical value."""
        if value is None:
            return None
        return int(self._units(np.array([_floor_to(self.unit, kind, value)], np.int64))[0])

    def ordered_result(self, kind: PrimitiveType, value: Any) -> int | None:
        """Return the partition value of a source value; None if it overflows, so that it would not follow the order of the source values."""
        return self.apply(kind, value)

    def apply_array(self, kind: PrimitiveType, array: Any) -> Any:
        """Return the partition values of an Arrow array."""
        plain = _plain(array)
        units = self._units(_floor_to(self.unit, kind, _whole_numbers(kind, plain)))
        return _mask_nulls(units, pa.date32() if isinstance(self, DayTransform) else pa.int32(), plain)

    def _units(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert days to the transform's unit for year and month. For day and hour, return the numbers unchanged."""
        if self.unit in ("D", "h") or not len(numbers):
            return numbers
        first, last = int(numbers.min()), int(numbers.max())
        if last - first >= len(numbers):
            return self._calendar_units(numbers)
        # Calendar arithmetic takes 30 ns per value, so it is done once for each day between the first and the last, and values are looked up.
        return self._calendar_units(np.arange(first, last + 1))[numbers - first]

    def _calendar_units(self, days: NDArray[np.int64]) -> NDArray[np.int64]:
        return days.astype("datetime64[D]").astype(f"datetime64[{self.unit}]").astype(np.int64)

    def __str__(self) -> str:
        return self.name_suffix


@dataclass(frozen=True)
class YearTransform(TimeTransform):
    """The transform whose partition value is the number of years since 1970."""

    unit: ClassVar[str] = "Y"
    name_suffix: ClassVar[str] = "year"

    def to_human(self, result_type: PrimitiveType, value: Any) -> str:  # noqa: ARG002
        """Return a partition value as text."""
        return "null" if value is None else f"{1970 + value:04d}"


@dataclass(frozen=True)
class MonthTransform(TimeTransform):
    """The transform whose partition value is the number of months since 1970-01."""

    unit: ClassVar[str] = "M"
    name_suffix: ClassVar[str] = "month"

    def to_human(self, result_type: PrimitiveType, value: Any) -> str:  # noqa: ARG002
        """Return a partition value as text."""
        return "null" if value is None else f"{1970 + value // 12:04d}-{1 + value % 12:02d}"


@dataclass(frozen=True)
class DayTransform(TimeTransform):
    """The transform whose partition value is the number of days since 1970-01-01, with the type date."""

    unit: ClassVar[str] = "D"
    name_suffix: ClassVar[str] = "day"

    def result_type(self, kind: PrimitiveType) -> PrimitiveType:  # noqa: ARG002
        """Return the type of the partition values."""
        return DateType()

    def to_human(self, result_type: PrimitiveType, value: Any) -> str:  # noqa: ARG002
        """Return a partition value as text."""
        return "null" if value is None else iso.format_date(value)


# Hours of years after 246,953 and before -243,014 overflow 32 bits. A result up to the first of these numbers, or from the second on, may be an overflowed one,
# so it gives no bounds for the times of its partition.
WRAPPED_HOURS = ((2**63 - 1) // iso.MICROS_PER_HOUR - 2**32, -(2**63) // iso.MICROS_PER_HOUR + 2**32)


@dataclass(frozen=True)
class HourTransform(TimeTransform):
    """The transform whose partition value is the number of hours since 1970-01-01T00."""

    unit: ClassVar[str] = "h"
    name_suffix: ClassVar[str] = "hour"

    def apply(self, kind: PrimitiveType, value: Any) -> int | None:
        """Return the partition value of one physical value. It overflows beyond 32 bits, as in Java."""
        hour = super().apply(kind, value)
        return None if hour is None else (hour + 2**31) % 2**32 - 2**31

    def ordered_result(self, kind: PrimitiveType, value: Any) -> int | None:
        hour = super().apply(kind, value)
        return hour if hour is not None and -(2**31) <= hour < 2**31 else None

    def can_transform(self, kind: IcebergType) -> bool:
        """Return True if a column of this type may be the source."""
        return isinstance(kind, _TIMESTAMPS)

    def to_human(self, result_type: PrimitiveType, value: Any) -> str:  # noqa: ARG002
        """Return a partition value as text."""
        return "null" if value is None else f"{iso.format_date(value // 24)}-{value % 24:02d}"


@dataclass(frozen=True)
class UnknownTransform(Transform):
    """A transform that Icefloe does not support, of a later version of the format.

    Tables with it are read without pruning by this field, and not written. Spec: Partition Transforms.
    """

    text: str

    def can_transform(self, kind: IcebergType) -> bool:  # noqa: ARG002
        """Return True if a column of this type may be the source."""
        return True

    def result_type(self, kind: PrimitiveType) -> PrimitiveType:  # noqa: ARG002
        """Return the type of the partition values."""
        return StringType()

    def apply(self, kind: PrimitiveType, value: Any) -> Any:
        """Return the partition value of one physical value."""
        raise UnsupportedFeatureError(
            f"the partition transform {self.text!r} is unknown, so {value!r} of type {kind} cannot be partitioned by it"
        )

    def apply_array(self, kind: PrimitiveType, array: Any) -> Any:
        """Return the partition values of an Arrow array."""
        return self.apply(kind, f"a column of {len(array)} rows")

    def __str__(self) -> str:
        return self.text


_PLAIN_TRANSFORMS: dict[str, Transform] = {
    str(transform): transform
    for transform in (IdentityTransform(), YearTransform(), MonthTransform(), DayTransform(), HourTransform(), VoidTransform())
}
_WITH_PARAMETER = re.compile(r"(bucket|truncate)\[(\d+)\]", re.ASCII)


def parse_transform(text: str, source_count: int = 1) -> Transform:
    """Parse the text of a transform, such as `bucket[16]`. Any unknown text becomes an `UnknownTransform`.

    The format allows transforms of several source columns, but does not define any yet, so with more than one source column every text is unknown.

    Raises:
        InvalidPartitionSpecError: A bucket count or width is 0, or above 2,147,483,647.
    Spec: Partition Transforms; Appendix C, Partition Specs (`source-ids`).
    """
    if source_count != 1:
        return UnknownTransform(text)
    name = text.lower()
    match = _WITH_PARAMETER.fullmatch(name)
    if match:
        number = int(
            match[2].lstrip("0")[:20] or "0"
        )  # Valid numbers have fewer than 20 digits, and Python refuses to parse thousands of digits.
        return BucketTransform(number) if match[1] == "bucket" else TruncateTransform(number)
    return _PLAIN_TRANSFORMS.get(name, UnknownTransform(text))


def is_time_transform(transform: Transform) -> bool:
    """Return True for year, month, day and hour."""
    return isinstance(transform, TimeTransform)


def _check_parameter(name: str, number: int) -> None:
    if type(number) is not int or not 1 <= number <= 2**31 - 1:
        raise InvalidPartitionSpecError(f"{name}[{number}] is not a transform: the parameter is a whole number from 1 to 2147483647")


def _plain(array: Any) -> Any:
    """Return the values as one Arrow array without chunks, dictionary encoding or extension type, such as Arrow's uuid."""
    plain = array_of_chunks(array)
    if isinstance(plain, pa.ExtensionArray):
        plain = plain.storage
    return plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain


def _whole_numbers(kind: PrimitiveType, array: Any) -> NDArray[np.int64]:
    """Return the physical values of an int, long, date, time or timestamp array; 0 for null."""
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ns" if isinstance(kind, NANO_TYPES) else "us", array.type.tz))
    numbers: NDArray[np.int64] = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _hashed_numbers(kind: PrimitiveType, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers that the bucket transform hashes.

    Nanoseconds are rounded down to microseconds, so that both timestamp types have the same buckets. Spec: Appendix B, note 3.
    """
    return numbers // iso.NANOS_PER_MICRO if isinstance(kind, NANO_TYPES) else numbers


def _mask_nulls(results: NDArray[Any], arrow_type: Any, source: Any) -> Any:
    """Return `results` as an Arrow array that is null where `source` is."""
    validity = numpy_of(source.is_valid())
    width = np.int32 if pa.types.is_date32(arrow_type) else arrow_type.to_pandas_dtype()
    return numbers_array(results.astype(width), arrow_type, None if validity.all() else validity)


def _floor_to(unit: str, kind: PrimitiveType, numbers: Any) -> Any:
    """Convert numbers of a timestamp type to hours for the unit `h`, else to days. Dates are days already. `numbers` is an int or an array."""
    if isinstance(kind, DateType):
        return numbers
    scale = iso.NANOS_PER_MICRO if isinstance(kind, NANO_TYPES) else 1
    return numbers // ((iso.MICROS_PER_HOUR if unit == "h" else iso.MICROS_PER_DAY) * scale)
