"""Partition evolution in both format versions, and the field ids that a table assigns."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from icefloe.errors import InvalidPartitionSpecError
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, partition_spec_from_text
from icefloe.spec.partitioning.spec_evolution import (
    AddPartitionField,
    RemovePartitionField,
    RenamePartitionField,
    SpecChange,
    assign_spec_field_ids,
    evolve_spec,
)
from icefloe.spec.partitioning.transforms import Transform, VoidTransform, parse_transform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DoubleType, LongType, NestedField, StringType, StructType, TimestampType

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "ts", TimestampType()),
    NestedField(4, "place", StructType(NestedField(5, "zone", StringType()))),
    NestedField(6, "ratio", DoubleType()),
)
BOTH = pytest.mark.parametrize("version", [1, 2])


def spec_of(*texts: str) -> PartitionSpec:
    return partition_spec_from_text(SCHEMA, texts)


def add(column: str, transform: str = "identity", name: str | None = None) -> SpecChange:
    return AddPartitionField(source_id=SCHEMA.find_field(column).field_id, transform=parse_transform(transform), name=name)


def remove(name: str) -> SpecChange:
    return RemovePartitionField(name=name)


def rename(name: str, new_name: str) -> SpecChange:
    return RenamePartitionField(name=name, new_name=new_name)


def names(spec: PartitionSpec) -> list[str]:
    return [f"{field.name}:{field.transform}" for field in spec.fields]


def after(start: list[str], *changes: SpecChange, version: int = 2) -> list[str]:
    return names(evolve_spec(spec_of(*start), changes, SCHEMA, format_version=version))


@BOTH
def test_fields_are_added_at_the_end_under_javas_names(version: int) -> None:
    changes = [add("id", "bucket[16]"), add("name", "truncate[4]"), add("ts", "day"), add("place.zone"), add("id", "identity", "key")]
    assert after(["name"], *changes, version=version) == [
        "name:identity",
        "id_bucket_16:bucket[16]",
        "name_trunc_4:truncate[4]",
        "ts_day:day",
        "place.zone:identity",
        "key:identity",
    ]


def test_a_removed_field_is_dropped_in_version_2_and_void_in_version_1() -> None:
    assert after(["name", "id"], remove("name")) == ["id:identity"]
    assert after(["name", "id"], remove("name"), version=1) == ["name:void", "id:identity"]


@BOTH
def test_a_removed_field_added_again_is_at_its_old_position(version: int) -> None:
    assert after(["name", "id"], remove("name"), add("name"), version=version) == ["name:identity", "id:identity"]
    assert after(["name", "id"], remove("name"), add("name", "identity", "n"), version=version) == ["n:identity", "id:identity"]


def test_a_void_field_of_version_1_is_renamed_for_a_new_field() -> None:
    void = evolve_spec(spec_of("name", "id"), [remove("name")], SCHEMA, format_version=1)
    assert names(evolve_spec(void, [add("name")], SCHEMA, format_version=1)) == ["name_1000:void", "id:identity", "name:identity"]
    assert after(["name", "id"], remove("name"), rename("id", "name2"), add("name", "bucket[2]", "name2x"), version=1)[0] == "name:void"


@BOTH
def test_a_field_added_in_the_same_update_may_be_renamed_and_removed(version: int) -> None:
    assert after(["name"], add("id"), rename("id", "key"), version=version) == ["name:identity", "key:identity"]
    assert after(["name"], add("id"), remove("id"), version=version) == ["name:identity"]


@BOTH
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([remove("nothing")], "no partition field 'nothing'"),
        ([rename("nothing", "x")], "no partition field 'nothing'"),
        ([remove("name"), remove("name")], "no partition field 'name'"),
        ([add("name")], "name is identity of the same column already"),
        ([add("id", "bucket[4]", "name")], "partition field name already: identity of name"),
        ([rename("id_bucket", "name")], "partition field name already"),
        ([add("ratio", "bucket[4]")], r"bucket\[4\] does not work on column 'ratio'"),
        ([add("name", "day")], "day does not work on column 'name'"),
        ([add("place", "identity")], "column 'place' is not a primitive column"),
        ([add("name", "zorder")], "no transform 'zorder'"),
        ([add("ts", "day"), add("ts", "hour")], "already partitioned by time"),
        ([add("ts", "day", "ratio")], "a column has this name"),
    ],
)
def test_a_change_that_violates_a_rule_is_refused(changes: list[SpecChange], message: str, version: int) -> None:
    with pytest.raises(InvalidPartitionSpecError) as refused:
        after(["name", "bucket(16, id)"], *changes, version=version)
    refused.match(message)


# ---- the ids ----


def field(source: str, transform: str, field_id: int, name: str) -> PartitionField:
    parsed: Transform = parse_transform(transform)
    return PartitionField(SCHEMA.find_field(source).field_id, field_id, parsed, name)


def ids(spec: PartitionSpec) -> list[int]:
    return [field.field_id for field in spec.fields]


def test_version_2_reuses_the_id_of_an_equivalent_field_of_any_spec() -> None:
    known_specs = [spec_of("name", "id"), PartitionSpec(field("ts", "day", 1002, "ts_day"), spec_id=1)]
    new_spec = PartitionSpec(
        field("ts", "day", 1, "d"), field("id", "identity", 2, "id"), field("id", "bucket[4]", 3, "b"), field("name", "void", 4, "v")
    )
    assert ids(assign_spec_field_ids(new_spec, known_specs, 1002, format_version=2)) == [1002, 1001, 1003, 1004]


def test_version_1_numbers_by_position_and_keeps_the_id_of_void_fields() -> None:
    known_specs = [spec_of("name", "id")]
    new_spec = PartitionSpec(field("name", "void", 7, "name"), field("id", "identity", 8, "id"), field("name", "identity", 9, "n"))
    numbered = assign_spec_field_ids(new_spec, known_specs, 1001, format_version=1)
    assert ids(numbered) == [1000, 1001, 1002]
    assert ids(assign_spec_field_ids(numbered, [*known_specs, numbered], 1002, format_version=1)) == [1000, 1001, 1002]
    assert numbered.fields[0].transform == VoidTransform()


@pytest.mark.parametrize("texts", [["id", "name"], ["id"], ["truncate(2, name)", "id"]])
def test_version_1_refuses_another_field_at_a_used_position(texts: list[str]) -> None:
    with pytest.raises(InvalidPartitionSpecError, match="only add partition fields at the end") as refused:
        assign_spec_field_ids(spec_of(*texts), [spec_of("name", "id")], 1001, format_version=1)
    assert "version 2" in str(refused.value)


CHANGES = st.tuples(
    st.sampled_from(["add", "add", "remove", "rename"]),
    st.sampled_from(["id", "name", "place.zone"]),
    st.sampled_from(["identity", "bucket[2]", "bucket[3]", "truncate[2]"]),
    st.sampled_from([None, "p", "q", "r"]),
)


@given(st.lists(st.lists(CHANGES, min_size=1, max_size=3), max_size=8), st.sampled_from([1, 2, 3]))
def test_each_field_has_one_id_in_all_specs_after_any_changes(commits: list[list[tuple[str, str, str, str | None]]], version: int) -> None:
    """From version 2 on one source and transform always have the same id; in version 1 ids are positions."""
    specs, last_id = [PartitionSpec()], 999
    meaning: dict[int, tuple[tuple[int, ...], str]] = {}
    for commit in commits:
        changes = [
            {"add": add(column, transform, name), "remove": remove(name or "p"), "rename": rename(name or "p", "s")}[what]
            for what, column, transform, name in commit
        ]
        try:
            spec = assign_spec_field_ids(
                evolve_spec(specs[-1], changes, SCHEMA, format_version=version), specs, last_id, format_version=version
            )
        except InvalidPartitionSpecError:
            continue
        specs.append(spec)
        last_id = max(last_id, spec.last_assigned_field_id)
        ids = [field.field_id for field in spec.fields]
        assert len(set(ids)) == len(ids) == len({field.name for field in spec.fields})
        assert all(1000 <= field_id <= last_id for field_id in ids)
        for place, field in enumerate(spec.fields):
            source_and_transform = (field.source_ids, str(field.transform))
            if version == 1:
                assert field.field_id == 1000 + place
                meaning_of_id = meaning.setdefault(field.field_id, source_and_transform)
                assert meaning_of_id[0] == source_and_transform[0]
                assert source_and_transform[1] in (meaning_of_id[1], "void")
            else:
                assert meaning.setdefault(field.field_id, source_and_transform) == source_and_transform
                assert [i for i, meaning_of_id in meaning.items() if meaning_of_id == source_and_transform] == [field.field_id]
