"""Facts about data files that follow from the history of a table's schemas."""

from dataclasses import replace

import pytest

from icefloe import ListType, LongType, NestedField, Schema, StringType, StructType
from icefloe.spec.schema.metadata_columns import POS
from icefloe.spec.schema.schema_history import is_complete_history, relax_required_fields, required_fields_absent_from_files

ID = NestedField(1, "id", LongType(), required=True)
NAME = NestedField(2, "name", StringType(), required=True)
OPTIONAL = replace(NAME, required=False)


@pytest.mark.parametrize(("ids", "whole"), [((0,), True), ((1, 0), True), ((0, 2), False), ((1,), False), ((), False)])
def test_a_history_with_a_gap_is_not_complete(ids: tuple[int, ...], whole: bool) -> None:
    assert is_complete_history([Schema(ID, schema_id=number) for number in ids]) == whole


@pytest.mark.parametrize(
    ("before", "now", "required", "late"),
    [
        ((), (ID, NAME), [True, True], set()),
        (((ID, OPTIONAL),), (ID, NAME), [True, False], set()),
        (((ID,),), (ID, NAME), [True, True], {2}),  # added after files were written
        (((ID,),), (ID, replace(NAME, initial_default="x")), [True, True], set()),
        (((ID,),), (ID, OPTIONAL), [True, False], set()),
        (((ID, NAME), (ID,)), (ID, NAME), [True, True], {2}),  # dropped, and brought back by an older schema
        (((ID,), (ID, OPTIONAL)), (ID, NAME), [True, False], {2}),
        (((ID, NAME),), (ID, OPTIONAL), [True, False], set()),
    ],
)
def test_a_column_is_required_if_no_file_has_nulls_and_absent_if_files_may_lack_it(
    before: tuple[tuple[NestedField, ...], ...], now: tuple[NestedField, ...], required: list[bool], late: set[int]
) -> None:
    history = [Schema(*fields, schema_id=number) for number, fields in enumerate((*before, now))]
    assert [field.required for field in relax_required_fields(now, history)] == required
    assert required_fields_absent_from_files(now, history) == late
    assert relax_required_fields(now, history[-1:]) == relax_required_fields(now, ()) == now
    assert relax_required_fields((POS,), history) == (POS,)  # no file has it
    assert not required_fields_absent_from_files((POS,), history)


def test_nested_fields_are_relaxed_too() -> None:
    def schema(number: int, *, required: bool) -> Schema:
        inner = StructType(ID, replace(NAME, required=required))
        kind = ListType(element_id=4, element=inner, element_required=True)
        return Schema(NestedField(3, "all", kind, required=True), schema_id=number)

    history = [schema(0, required=False), schema(1, required=True)]
    assert relax_required_fields(history[1].fields, history) == schema(1, required=False).fields


def test_a_field_is_absent_where_a_file_has_its_struct_without_it() -> None:
    inner = StructType(replace(NAME, required=True))
    struct = NestedField(5, "s", inner)
    history = [Schema(ID), Schema(ID, struct, schema_id=1)]
    assert relax_required_fields((ID, struct), history) == (ID, struct)
    assert not required_fields_absent_from_files((ID, struct), history)
    bare = replace(struct, field_type=StructType(ID))
    grown = replace(struct, field_type=StructType(ID, NAME))
    history = [Schema(bare), Schema(grown, schema_id=1)]
    assert relax_required_fields((grown,), history) == (grown,)
    assert required_fields_absent_from_files((grown,), history) == {2}
