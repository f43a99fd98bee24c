"""Partition specs: text, JSON, the checks before one is added, and the folder of a partition."""

from decimal import Decimal
from typing import Any
from urllib.parse import unquote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import InvalidPartitionSpecError, MetadataFormatError, UnsupportedFeatureError
from icefloe.spec.partitioning.partition_spec import (
    UNPARTITIONED_SPEC,
    PartitionField,
    PartitionSpec,
    check_known_transforms,
    check_spec,
    fields_from_json,
    fields_to_json,
    partition_path,
    partition_spec_from_text,
    partition_type,
    rebind_spec,
    spec_from_json,
    spec_to_json,
)
from icefloe.spec.partitioning.spec_evolution import assign_field_ids
from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "time_hour", TimestampType()),
    NestedField(3, "origin", StringType()),
    NestedField(4, "flown", StructType(NestedField(5, "day", DateType()), NestedField(6, "taken by", StringType()))),
    NestedField(7, "tags", ListType(element_id=8, element=StringType())),
    NestedField(9, "price", DecimalType(9, 2)),
    NestedField(10, "late", BooleanType()),
    NestedField(11, "key", BinaryType()),
)


def spec_of(*texts: str) -> PartitionSpec:
    return partition_spec_from_text(SCHEMA, texts)


# ---- text ----


@pytest.mark.parametrize(
    ("text", "source_id", "transform", "name"),
    [
        ("origin", 3, IdentityTransform(), "origin"),
        (" `origin` ", 3, IdentityTransform(), "origin"),
        ("identity(origin)", 3, IdentityTransform(), "origin"),
        ("month(time_hour)", 2, MonthTransform(), "time_hour_month"),
        ("MONTHS( time_hour )", 2, MonthTransform(), "time_hour_month"),
        ("date(time_hour)", 2, DayTransform(), "time_hour_day"),
        ("bucket(16, id)", 1, BucketTransform(16), "id_bucket"),
        ("bucket(id,16)", 1, BucketTransform(16), "id_bucket"),
        ("truncate(4, origin)", 3, TruncateTransform(4), "origin_trunc"),
        ("truncate(4, origin) AS o4", 3, TruncateTransform(4), "o4"),
        ("void(id)", 1, VoidTransform(), "id_null"),
        ("year(flown.day)", 5, YearTransform(), "flown.day_year"),
        ("flown.taken by", 6, IdentityTransform(), "flown.taken by"),
        ('bucket(2, "flown.taken by")', 6, BucketTransform(2), "flown.taken by_bucket"),
    ],
)
def test_a_text_names_a_transform_and_a_column(text: str, source_id: int, transform: Any, name: str) -> None:
    assert spec_of(text).fields == (PartitionField(source_id, 1000, transform, name),)


def test_field_ids_of_a_new_spec_count_up_from_1000() -> None:
    spec = spec_of("origin", "month(time_hour)", "bucket(16, id)")
    assert [field.field_id for field in spec.fields] == [1000, 1001, 1002]
    assert spec.last_assigned_field_id == 1002
    assert spec_of() == UNPARTITIONED_SPEC
    assert UNPARTITIONED_SPEC.last_assigned_field_id == 999


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        (["nope"], "'nope'"),
        (["month(nope)"], "no column 'nope'"),
        (["bucket(id)"], "bucket(16, column)"),
        (["bucket(x, id)"], "bucket(16, column)"),
        (["bucket(0, id)"], "bucket[0]"),
        (["shuffle(id)"], "the transforms are"),
        (["month(id)"], "month does not work on column 'id' of type long"),
        (["bucket(4, late)"], "type boolean"),
        (["tags"], "outside of lists and maps"),
        (["tags.element"], "outside of lists and maps"),
        (["flown"], "outside of lists and maps"),
        (["origin", "bucket(4, origin) as origin"], "two partition fields have this name"),
        (["origin", "origin as o"], "is not a partition field"),
        (["origin", "identity(origin) as o"], "already partitioned by identity"),
        (["day(time_hour)", "month(time_hour)"], "already partitioned by time"),
        (["bucket(4, origin) as price"], "a column has this name"),
        (["bucket(4, origin) as origin"], "a column has this name"),
        (["identity(price) as late"], "a column has this name"),
    ],
)
def test_a_text_that_cannot_partition_is_refused_with_the_reason(texts: list[str], part: str) -> None:
    with pytest.raises(InvalidPartitionSpecError) as caught:
        spec_of(*texts)
    assert part in str(caught.value)


# ---- checks ----


def test_every_problem_of_a_spec_is_listed() -> None:
    spec = PartitionSpec(
        PartitionField(99, 1000, IdentityTransform(), "a"),
        PartitionField(1, 1000, UnknownTransform("zorder"), "a"),
        PartitionField(3, 1001, BucketTransform(4), ""),
    )
    with pytest.raises(InvalidPartitionSpecError) as caught:
        check_spec(spec, SCHEMA)
    whats = [problem.what for problem in caught.value.problems]
    assert len(whats) == 5
    for part in ("field id 99", "id 1000 is used twice", "two partition fields have this name", "no transform 'zorder'", "empty name"):
        assert any(part in what for what in whats)


def test_a_void_field_of_a_dropped_column_may_keep_its_name() -> None:
    check_spec(PartitionSpec(PartitionField(99, 1000, VoidTransform(), "origin"), PartitionField(3, 1001, BucketTransform(4), "b")), SCHEMA)


def test_a_spec_of_only_void_fields_does_not_partition() -> None:
    assert UNPARTITIONED_SPEC.is_unpartitioned()
    assert PartitionSpec(PartitionField(1, 1000, VoidTransform(), "x")).is_unpartitioned()
    assert not spec_of("origin").is_unpartitioned()


# ---- types and paths ----


def test_the_partition_type_has_the_result_types_in_spec_order() -> None:
    spec = spec_of("day(time_hour)", "bucket(4, id)", "price", "truncate(3, origin)")
    assert partition_type(spec, SCHEMA) == StructType(
        NestedField(1000, "time_hour_day", DateType()),
        NestedField(1001, "id_bucket", IntegerType()),
        NestedField(1002, "price", DecimalType(9, 2)),
        NestedField(1003, "origin_trunc", StringType()),
    )


def test_a_dropped_source_column_is_found_in_an_older_schema() -> None:
    newer = SCHEMA.select("id")
    spec = spec_of("origin", "day(time_hour)", "void(late)")
    assert [str(f.field_type) for f in partition_type(spec, newer, [SCHEMA]).fields] == ["string", "date", "boolean"]
    without_identity = spec_of("day(time_hour)", "bucket(4, origin)", "void(late)")
    assert [str(f.field_type) for f in partition_type(without_identity, newer).fields] == ["date", "int", "int"]
    with pytest.raises(InvalidPartitionSpecError, match="'origin' is identity of field 3"):
        partition_type(spec, newer)


def test_an_unknown_transform_is_read_as_text() -> None:
    spec = PartitionSpec(PartitionField(1, 1000, UnknownTransform("zorder"), "z"))
    assert [str(f.field_type) for f in partition_type(spec, SCHEMA).fields] == ["string"]
    assert [str(f.field_type) for f in partition_type(spec, SCHEMA.select("origin")).fields] == ["string"]


def test_a_partition_path_is_in_form_encoding_as_java_writes_it() -> None:
    spec = spec_of("month(time_hour)", "origin", "flown.taken by", "price", "late", "key", "bucket(4, id)")
    values = (-1, "a b/c=d~e*f.g-h_i%é", None, Decimal("1.50"), True, b"\xff\xfe", 3)
    assert partition_path(spec, SCHEMA, values) == (
        "time_hour_month=1969-12/origin=a+b%2Fc%3Dd%7Ee*f.g-h_i%25%C3%A9/flown.taken+by=null/price=1.50/late=true/key=%2F%2F4%3D/id_bucket=3"
    )
    assert partition_path(UNPARTITIONED_SPEC, SCHEMA, ()) == ""


@settings(max_examples=examples(60))
@given(st.text())
def test_a_partition_value_never_makes_a_second_folder(value: str) -> None:
    path = partition_path(spec_of("origin"), SCHEMA, (value,))
    assert path.count("/") == 0
    assert path.isascii()
    assert unquote_plus(path) == f"origin={value}"


def test_a_tuple_of_the_wrong_length_has_no_path() -> None:
    with pytest.raises(ValueError, match="shorter"):
        partition_path(spec_of("origin"), SCHEMA, ())


# ---- ids ----


def test_a_field_that_an_older_spec_had_gets_its_id_again() -> None:
    first = spec_of("origin", "day(time_hour)")
    changed = spec_of("bucket(4, id)", "day(time_hour)")
    assert [f.field_id for f in assign_field_ids(changed, [first], 1001).fields] == [1002, 1001]


def test_an_id_is_never_assigned_twice_in_a_spec() -> None:
    known_spec = PartitionSpec(PartitionField(3, 1000, VoidTransform(), "a"), PartitionField(3, 1005, VoidTransform(), "b"))
    new_spec = PartitionSpec(
        PartitionField(3, 0, VoidTransform(), "b"), PartitionField(3, 0, VoidTransform(), "c"), PartitionField(3, 0, VoidTransform(), "d")
    )
    assert [f.field_id for f in assign_field_ids(new_spec, [known_spec], 1005).fields] == [1005, 1000, 1006]


def test_two_specs_are_equivalent_whatever_their_ids() -> None:
    renumbered = PartitionSpec(PartitionField(3, 1007, IdentityTransform(), "origin"), spec_id=4)
    assert renumbered.is_equivalent(spec_of("origin"))
    assert renumbered != spec_of("origin")
    assert not renumbered.is_equivalent(spec_of("identity(origin) as o"))
    assert not renumbered.is_equivalent(spec_of("origin", "id"))


def test_sources_follow_their_columns_to_fresh_ids() -> None:
    fresh = assign_fresh_ids(SCHEMA, first_id=101)
    spec = rebind_spec(spec_of("year(flown.day)", "origin"), SCHEMA, fresh)
    assert [fresh.find_column_name(field.source_id) for field in spec.fields] == ["flown.day", "origin"]
    assert spec == partition_spec_from_text(fresh, ["year(flown.day)", "origin"])
    with pytest.raises(InvalidPartitionSpecError, match="field id 3"):
        rebind_spec(spec_of("origin"), SCHEMA, fresh.select("id"))


def test_fields_are_found_by_their_source() -> None:
    spec = spec_of("bucket(4, id)", "origin", "truncate(2, origin)")
    assert [field.name for field in spec.by_source_id[3]] == ["origin", "origin_trunc"]
    assert 2 not in spec.by_source_id


# ---- JSON ----

JSON = {
    "spec-id": 3,
    "fields": [
        {"source-id": 2, "field-id": 1000, "transform": "day", "name": "d"},
        {"source-id": 1, "field-id": 1001, "transform": "bucket[16]", "name": "b"},
        {"source-id": 1, "field-id": 1002, "transform": "zorder[x]", "name": "z"},
    ],
}


def test_json_with_transforms_of_later_versions_survives_a_round_trip() -> None:
    spec = spec_from_json(JSON)
    assert spec.spec_id == 3
    assert [str(field.transform) for field in spec.fields] == ["day", "bucket[16]", "zorder[x]"]
    assert spec_to_json(spec) == JSON
    assert fields_to_json(spec) == JSON["fields"]


def test_a_v1_spec_without_field_ids_gets_them_from_1000() -> None:
    items = [{"source-id": 2, "transform": "day", "name": "d"}, {"source-id": 3, "transform": "identity", "name": "origin"}]
    spec = fields_from_json(items, spec_id=7)
    assert [field.field_id for field in spec.fields] == [1000, 1001]
    assert spec.spec_id == 7


def test_a_list_of_one_source_is_read_and_written_as_one_source() -> None:
    spec = fields_from_json([{"source-ids": [2], "transform": "day", "name": "d"}])
    assert spec.fields[0] == PartitionField(2, 1000, DayTransform(), "d")
    assert fields_to_json(spec) == [{"source-id": 2, "field-id": 1000, "transform": "day", "name": "d"}]


SEVERAL = {"source-ids": [3, 1], "field-id": 1000, "transform": "bucket[4]", "name": "b"}


def test_a_transform_of_several_columns_is_kept_and_computes_nothing() -> None:
    """No transform of the format has several source columns yet; `bucket` over two columns is an unknown transform."""
    spec = fields_from_json([SEVERAL])
    assert spec.fields[0].source_ids == (3, 1)
    assert spec.fields[0].transform == UnknownTransform("bucket[4]")
    assert str(spec) == "[1000: b: bucket[4](3, 1)]"
    assert fields_to_json(spec) == [SEVERAL]
    assert not spec.is_equivalent(fields_from_json([{**SEVERAL, "source-ids": [1, 3]}]))
    assert fields_from_json([{**SEVERAL, "source-id": 3}]) == spec


def test_a_spec_with_an_unknown_transform_is_read_but_not_added_or_written() -> None:
    spec = fields_from_json([SEVERAL])
    check_spec(spec, SCHEMA, may_be_unknown=True)
    with pytest.raises(InvalidPartitionSpecError, match=r"there is no transform 'bucket\[4\] of 2 columns'"):
        check_spec(spec, SCHEMA)
    with pytest.raises(InvalidPartitionSpecError, match="no column with field id 99"):
        check_spec(fields_from_json([{**SEVERAL, "source-ids": [1, 99]}]), SCHEMA, may_be_unknown=True)
    with pytest.raises(UnsupportedFeatureError, match=r"bucket\[4\] of its field b is unknown"):
        check_known_transforms(spec)
    check_known_transforms(spec_of("origin", "void(late)"))


def test_every_source_of_a_field_follows_its_column() -> None:
    fresh = assign_fresh_ids(SCHEMA, first_id=101)
    assert [fresh.find_column_name(i) for i in rebind_spec(fields_from_json([SEVERAL]), SCHEMA, fresh).fields[0].source_ids] == [
        SCHEMA.find_column_name(i) for i in SEVERAL["source-ids"]
    ]


@pytest.mark.parametrize("sources", [[], [1, "2"], [1, True], "1", 5])
def test_invalid_sources_are_listed_with_their_path(sources: object) -> None:
    with pytest.raises(MetadataFormatError) as caught:
        fields_from_json([{**SEVERAL, "source-ids": sources}], where="partition-specs[0].fields")
    assert [problem.where for problem in caught.value.problems] == ["partition-specs[0].fields[0].source-ids"]


def test_every_problem_of_the_json_is_listed_with_its_path() -> None:
    value = {
        "spec-id": 0,
        "fields": [{"source-id": "2", "transform": "day"}, 5, {"source-id": 1, "transform": "bucket[0]", "name": "b", "field-id": True}],
    }
    with pytest.raises(MetadataFormatError) as caught:
        spec_from_json(value, where="partition-specs[2]")
    assert [problem.where for problem in caught.value.problems] == [
        "partition-specs[2].fields[0].source-id",
        "partition-specs[2].fields[0].name",
        "partition-specs[2].fields[1]",
        "partition-specs[2].fields[2].field-id",
    ]


@pytest.mark.parametrize(
    "value", [None, [], {"fields": []}, {"spec-id": "0", "fields": []}, {"spec-id": 0}, {"spec-id": True, "fields": []}]
)
def test_json_of_another_shape_is_refused(value: Any) -> None:
    with pytest.raises(MetadataFormatError):
        spec_from_json(value)


def test_an_invalid_parameter_is_listed_with_its_path() -> None:
    with pytest.raises(MetadataFormatError) as caught:
        fields_from_json([{"source-id": 1, "transform": "bucket[0]", "name": "b"}])
    assert [problem.where for problem in caught.value.problems] == ["fields[0].transform"]
