"""Partition values are those of the spec, and the transform of a column equals the transforms of its values."""

import struct
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import InvalidPartitionSpecError, UnsupportedFeatureError
from icefloe.spec.literals import INTEGER_RANGES
from icefloe.spec.partitioning.murmur3 import hash_bytes
from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
    parse_transform,
)
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)
from icefloe.spec.values import physical_arrow_type, physical_list, to_bytes, to_physical

few = settings(max_examples=examples(60))

ALL_BITS = 2**31 - 1
DAY = 17486
SECOND = to_physical(TimestampType(), "2017-11-16T22:31:08")
MICRO_LATER = SECOND + 1
SOME_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")

TIMESTAMPS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
# The Arrow type of a column where it differs from that of the physical values.
COLUMN_TYPES = {
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"),
    TimestampNanoType: pa.timestamp("ns"),
    TimestamptzNanoType: pa.timestamp("ns", "UTC"),
    UUIDType: pa.binary(16),
    FixedType: pa.binary(3),
}


def column(kind: PrimitiveType, values: list[Any]) -> Any:
    """Return the values as a column of a table."""
    if isinstance(kind, UUIDType):
        values = [None if value is None else value.bytes for value in values]
    column_type = COLUMN_TYPES.get(type(kind), physical_arrow_type(kind))
    if isinstance(kind, (DateType, TimeType, *TIMESTAMPS)):
        return pa.array(values, physical_arrow_type(kind)).cast(column_type)
    return pa.array(values, column_type)


def physical_results(transform: Transform, kind: PrimitiveType, array: Any) -> list[Any]:
    result = transform.result_type(kind)
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if isinstance(result, (DateType, TimeType, *TIMESTAMPS, UUIDType, FixedType)):
        array = array.cast(physical_arrow_type(result))
    return physical_list(result, array)


def decimal(number: int, scale: int) -> Decimal:
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def sources(kind: PrimitiveType) -> st.SearchStrategy[Any]:
    if isinstance(kind, TimestampType | TimestamptzType):
        year_100 = 100 * 366 * 86400 * 10**6
        return st.integers(-(2**60), 2**60) | st.integers(-year_100, year_100)
    if type(kind) in INTEGER_RANGES:
        return st.integers(*INTEGER_RANGES[type(kind)]) | st.integers(0, 100)
    if isinstance(kind, DecimalType):
        # One digit less than the type has: the truncation of the least values is outside of the type.
        return st.integers(-(10 ** (kind.precision - 1)), 10 ** (kind.precision - 1)).map(lambda n: decimal(n, kind.scale))
    kinds: dict[type[PrimitiveType], st.SearchStrategy[Any]] = {
        StringType: st.text(),
        UUIDType: st.uuids(),
        FixedType: st.binary(min_size=3, max_size=3),
        BinaryType: st.binary(max_size=9),
        BooleanType: st.booleans(),
        DoubleType: st.floats(allow_nan=False),
    }
    return kinds[type(kind)]


# ---- bucket ----

HASHES = [
    (IntegerType(), 34, 2017239379),
    (LongType(), 34, 2017239379),
    (DecimalType(4, 2), Decimal("14.20"), -500754589),
    (DateType(), DAY, -653330422),
    (TimeType(), 81068000000, -662762989),
    (TimestampType(), SECOND, -2047944441),
    (TimestampType(), MICRO_LATER, -1207196810),
    (TimestamptzType(), SECOND, -2047944441),
    (TimestamptzType(), MICRO_LATER, -1207196810),
    (TimestampNanoType(), SECOND * 1000, -2047944441),
    (TimestampNanoType(), MICRO_LATER * 1000 + 1, -1207196810),
    (TimestamptzNanoType(), SECOND * 1000 + 999, -2047944441),
    (TimestamptzNanoType(), MICRO_LATER * 1000 + 1, -1207196810),
    (StringType(), "iceberg", 1210000089),
    (StringType(), "34", -427558391),
    (UUIDType(), SOME_UUID, 1488055340),
    (FixedType(4), b"\x00\x01\x02\x03", -188683207),
    (BinaryType(), b"\x00\x01\x02\x03", -188683207),
]


@pytest.mark.parametrize(("kind", "value", "signed_hash"), HASHES)
def test_a_bucket_is_the_hash_of_appendix_b_without_its_sign(kind: PrimitiveType, value: Any, signed_hash: int) -> None:
    # With the largest count, the bucket is all 31 bits of the hash, except for a hash that equals the count.
    transform = BucketTransform(ALL_BITS)
    assert transform.apply(kind, value) == (signed_hash & ALL_BITS) % ALL_BITS
    if not isinstance(kind, FixedType):
        assert transform.apply_array(kind, column(kind, [value, None])).to_pylist() == [(signed_hash & ALL_BITS) % ALL_BITS, None]


def test_values_of_appendix_b_of_types_without_buckets_have_the_published_hashes() -> None:
    def signed(data: bytes) -> int:
        return (hash_bytes(data) + 2**31) % 2**32 - 2**31

    assert signed(struct.pack("<q", 1)) == 1392991556
    assert signed(struct.pack("<d", 1.0)) == -142385009
    assert signed(struct.pack("<d", 0.0)) == 1669671676


def test_published_buckets() -> None:
    assert BucketTransform(16).apply(IntegerType(), 34) == 3
    assert BucketTransform(100).apply(LongType(), 34) == 79
    assert BucketTransform(16).apply(StringType(), "iceberg") == 9


BUCKETED = [
    IntegerType(),
    LongType(),
    DateType(),
    TimeType(),
    TimestampType(),
    TimestamptzType(),
    TimestampNanoType(),
    TimestamptzNanoType(),
    StringType(),
    UUIDType(),
    FixedType(3),
    BinaryType(),
    DecimalType(4, 2),
    DecimalType(18, 3),
    DecimalType(38, 0),
]


# ---- every transform: the column agrees with the value ----

CASES = [
    *((BucketTransform(n), kind) for n in (1, 7, 16) for kind in BUCKETED),
    *(
        (TruncateTransform(n), kind)
        for n in (1, 3, 10)
        for kind in (IntegerType(), LongType(), StringType(), BinaryType(), DecimalType(9, 2))
    ),
    (TruncateTransform(ALL_BITS), IntegerType()),
    (TruncateTransform(ALL_BITS), LongType()),
    (TruncateTransform(50), DecimalType(38, 10)),
    *(
        (transform, kind)
        for transform in (YearTransform(), MonthTransform(), DayTransform())
        for kind in (DateType(), *(timestamp() for timestamp in TIMESTAMPS))
    ),
    *((HourTransform(), timestamp()) for timestamp in TIMESTAMPS),
    *((transform, kind) for transform in (IdentityTransform(), VoidTransform()) for kind in (*BUCKETED, BooleanType(), DoubleType())),
]


@pytest.mark.parametrize(("transform", "kind"), CASES, ids=str)
def test_the_transform_of_a_column_equals_that_of_its_values(transform: Transform, kind: PrimitiveType) -> None:
    assert transform.can_transform(kind)

    @settings(max_examples=examples(20))
    @given(st.lists(st.none() | sources(kind), max_size=6), st.integers(0, 2))
    def check(values: list[Any], skipped: int) -> None:
        values = values if not isinstance(transform, HourTransform) else [v if v is None else v % 2**60 - 2**59 for v in values]
        array = column(kind, values).slice(skipped)
        expected = [transform.apply(kind, value) for value in values[skipped:]]
        assert physical_results(transform, kind, transform.apply_array(kind, array)) == expected
        in_chunks = pa.chunked_array([array, array.slice(1)], array.type)
        assert physical_results(transform, kind, transform.apply_array(kind, in_chunks)) == expected + expected[1:]

    check()


@pytest.mark.parametrize(
    ("transform", "kind", "result"),
    [
        (BucketTransform(4), StringType(), pa.int32()),
        (YearTransform(), DateType(), pa.int32()),
        (MonthTransform(), TimestampType(), pa.int32()),
        (DayTransform(), TimestamptzType(), pa.date32()),
        (HourTransform(), TimestampType(), pa.int32()),
        (TruncateTransform(4), StringType(), pa.string()),
        (TruncateTransform(4), IntegerType(), pa.int32()),
        (IdentityTransform(), TimestampType(), pa.timestamp("us")),
        (VoidTransform(), DateType(), pa.date32()),
    ],
)
def test_a_column_of_results_has_the_documented_arrow_type(transform: Transform, kind: PrimitiveType, result: Any) -> None:
    assert transform.apply_array(kind, column(kind, [None])).type == result
    assert transform.apply_array(kind, column(kind, [])).type == result


def test_a_dictionary_encoded_column_is_read_as_its_values() -> None:
    words = pa.array(["iceberg", None, "ice", "iceberg"])
    assert (
        BucketTransform(16)
        .apply_array(StringType(), words.dictionary_encode())
        .equals(BucketTransform(16).apply_array(StringType(), words))
    )


# ---- truncate ----


@pytest.mark.parametrize(
    ("width", "kind", "value", "result"),
    [
        (10, IntegerType(), 1, 0),
        (10, IntegerType(), 0, 0),
        (10, IntegerType(), -1, -10),
        (10, IntegerType(), -10, -10),
        (10, LongType(), -11, -20),
        (50, DecimalType(4, 2), Decimal("10.65"), Decimal("10.50")),
        (50, DecimalType(4, 2), Decimal("-0.01"), Decimal("-0.50")),
        (3, StringType(), "iceberg", "ice"),
        (3, StringType(), "😀é😀x", "😀é😀"),
        (3, StringType(), "ab", "ab"),
        (3, BinaryType(), b"\x01\x02\x03\x04", b"\x01\x02\x03"),
        (10, IntegerType(), None, None),
    ],
)
def test_truncation_follows_the_spec(width: int, kind: PrimitiveType, value: Any, result: Any) -> None:
    assert TruncateTransform(width).apply(kind, value) == result
    assert repr(TruncateTransform(width).apply(kind, value)) == repr(result)


@few
@given(st.sampled_from([IntegerType(), LongType()]), st.integers(1, ALL_BITS), st.data())
def test_truncation_preserves_order_except_for_one_wrapped_result(kind: PrimitiveType, width: int, data: st.DataObject) -> None:
    transform = TruncateTransform(width)
    low, high = INTEGER_RANGES[type(kind)]
    first, second = sorted([data.draw(st.integers(low, high)), data.draw(st.integers(low, high) | st.integers(low, low + width))])
    results = [transform.apply(kind, first), transform.apply(kind, second)]
    assert all(low <= result <= high for result in results)
    wrapped = transform.wrapped_result(kind)
    if wrapped not in results:
        assert results[0] <= first
        assert results == sorted(results)


def test_the_wrapped_result_is_that_of_the_least_sources() -> None:
    assert TruncateTransform(10).wrapped_result(IntegerType()) == 2147483646
    assert TruncateTransform(10).apply(IntegerType(), -(2**31)) == 2147483646
    assert TruncateTransform(16).wrapped_result(LongType()) is None
    assert TruncateTransform(10).wrapped_result(StringType()) is None


def test_a_truncated_decimal_with_a_digit_too_many_is_refused() -> None:
    with pytest.raises(InvalidPartitionSpecError, match="one digit more"):
        TruncateTransform(10).apply_array(DecimalType(4, 2), pa.array([Decimal("-99.99")], pa.decimal128(4, 2)))


# ---- time ----


@pytest.mark.parametrize(
    ("transform", "micros", "result", "text"),
    [
        (YearTransform(), SECOND, 47, "2017"),
        (MonthTransform(), SECOND, 574, "2017-11"),
        (DayTransform(), SECOND, DAY, "2017-11-16"),
        (HourTransform(), SECOND, 419686, "2017-11-16-22"),
        (YearTransform(), -1, -1, "1969"),
        (MonthTransform(), -1, -1, "1969-12"),
        (DayTransform(), -1, -1, "1969-12-31"),
        (HourTransform(), -1, -1, "1969-12-31-23"),
        (YearTransform(), None, None, "null"),
        (MonthTransform(), None, None, "null"),
        (DayTransform(), None, None, "null"),
        (HourTransform(), None, None, "null"),
    ],
)
def test_time_is_rounded_down_also_before_1970(transform: Transform, micros: int | None, result: int | None, text: str) -> None:
    for kind in (TimestampType(), TimestamptzType()):
        assert transform.apply(kind, micros) == result
        assert transform.to_human(transform.result_type(kind), result) == text


@few
@given(st.datetimes())
def test_time_transforms_agree_with_the_calendar(moment: datetime) -> None:
    micros = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    days = micros // (86400 * 10**6)
    assert YearTransform().apply(TimestampType(), micros) == moment.year - 1970
    assert MonthTransform().apply(TimestampType(), micros) == (moment.year - 1970) * 12 + moment.month - 1
    assert YearTransform().apply(DateType(), days) == moment.year - 1970
    assert MonthTransform().apply(DateType(), days) == (moment.year - 1970) * 12 + moment.month - 1
    hour = HourTransform().apply(TimestampType(), micros)
    assert HourTransform().to_human(IntegerType(), hour) == f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}-{moment.hour:02d}"


@few
@given(st.integers(-719_162, 2_932_896), st.lists(st.integers(0, 400), min_size=1, max_size=900))
def test_years_and_months_of_a_column_of_near_days_are_those_of_each_day(first: int, steps: list[int]) -> None:
    days = [min(first + step, 2_932_896) for step in steps]
    dates = [date(1970, 1, 1) + timedelta(days=day) for day in days]
    column_of_days = pa.array([*days, None], pa.int32()).cast(pa.date32())
    assert YearTransform().apply_array(DateType(), column_of_days).to_pylist() == [*(day.year - 1970 for day in dates), None]
    months = MonthTransform().apply_array(DateType(), column_of_days).to_pylist()
    assert months == [*((day.year - 1970) * 12 + day.month - 1 for day in dates), None]


# ---- which types, which text ----


@few
@given(st.integers(-(2**63), 2**63 - 1))
def test_nanoseconds_have_the_partitions_of_their_microseconds(nanos: int) -> None:
    for transform in (YearTransform(), MonthTransform(), DayTransform(), HourTransform(), BucketTransform(16)):
        expected = transform.apply(TimestampType(), nanos // 1000)
        assert transform.apply(TimestampNanoType(), nanos) == transform.apply(TimestamptzNanoType(), nanos) == expected


def test_shapes_and_variants_are_partitioned_only_by_void() -> None:
    transforms = [parse_transform(text) for text in ("identity", "bucket[4]", "truncate[4]", "year", "month", "day", "hour")]
    for kind in (GeometryType(), GeographyType(), VariantType()):
        assert not any(transform.can_transform(kind) for transform in transforms)
        assert VoidTransform().can_transform(kind)
    assert [str(transform) for transform in transforms if transform.can_transform(UnknownType())] == ["identity"]


def test_a_transform_of_several_columns_is_kept_as_its_text() -> None:
    transform = parse_transform("bucket[16]", 2)
    assert transform == UnknownTransform("bucket[16]")
    assert str(transform) == "bucket[16]"


def test_a_transform_accepts_the_types_of_the_spec() -> None:
    kinds = [BooleanType(), FloatType(), DoubleType(), *BUCKETED]
    a_list = ListType(element_id=1, element=LongType())
    taken = {str(t): {str(k) for k in [*kinds, a_list] if t.can_transform(k)} for t in [parse_transform(x) for x in ALL_TEXTS]}
    times = {"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
    numbers_and_text = {"int", "long", "string", "binary", "decimal(4, 2)", "decimal(18, 3)", "decimal(38, 0)"}
    assert taken["identity"] == {str(kind) for kind in kinds}
    assert taken["void"] == {str(kind) for kind in [*kinds, a_list]}
    assert taken["bucket[16]"] == {str(kind) for kind in BUCKETED}
    assert taken["truncate[4]"] == numbers_and_text
    assert taken["year"] == taken["month"] == taken["day"] == times | {"date"}
    assert taken["hour"] == times


ALL_TEXTS = ["identity", "bucket[16]", "truncate[4]", "year", "month", "day", "hour", "void"]


@pytest.mark.parametrize("text", ALL_TEXTS)
def test_the_text_of_a_transform_reads_back(text: str) -> None:
    assert str(parse_transform(text)) == text
    assert not isinstance(parse_transform(text), UnknownTransform)
    assert parse_transform(text.upper()) == parse_transform(text)


def test_only_ordered_transforms_preserve_order() -> None:
    ordered = {text for text in ALL_TEXTS if parse_transform(text).preserves_order}
    assert ordered == {"identity", "truncate[4]", "year", "month", "day", "hour"}


@pytest.mark.parametrize("text", ["zorder", "bucket", "bucket[-1]", "bucket[x]", "truncate[]", ""])
def test_a_transform_of_a_later_version_is_kept_but_not_computed(text: str) -> None:
    transform = parse_transform(text)
    assert transform == UnknownTransform(text)
    assert str(transform) == text
    with pytest.raises(UnsupportedFeatureError):
        transform.apply(LongType(), 1)
    with pytest.raises(UnsupportedFeatureError):
        transform.apply_array(LongType(), pa.array([1]))


@pytest.mark.parametrize("text", ["bucket[0]", "truncate[0]", f"bucket[{2**31}]"])
def test_a_number_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidPartitionSpecError):
        parse_transform(text)


def test_binary_partition_values_are_base64_in_text() -> None:
    assert IdentityTransform().to_human(BinaryType(), b"\x00\x01\x02\x03") == "AAECAw=="
    assert TruncateTransform(2).to_human(BinaryType(), None) == "null"
    assert BucketTransform(2).to_human(IntegerType(), 1) == "1"


def test_a_bucket_depends_only_on_the_bytes_of_the_decimal() -> None:
    # The same number in a wider type stays in its bucket, as promotion requires.
    assert BucketTransform(97).apply(DecimalType(4, 2), Decimal("14.20")) == BucketTransform(97).apply(DecimalType(38, 2), Decimal("14.20"))
    assert to_bytes(DecimalType(38, 2), Decimal("14.20")).hex() == "058c"
