"""What the history of a table's schemas tells of its files."""

from dataclasses import replace

import pytest

from icefloe import ListType, LongType, NestedField, Schema, StringType, StructType
from icefloe.kernel.schema.history import as_files_hold, is_whole

ID = NestedField(1, "id", LongType(), required=True)
NAME = NestedField(2, "name", StringType(), required=True)
OPTIONAL = replace(NAME, required=False)


@pytest.mark.parametrize(("ids", "whole"), [((0,), True), ((1, 0), True), ((0, 2), False), ((1,), False), ((), False)])
def test_a_history_with_a_gap_is_not_whole(ids: tuple[int, ...], whole: bool) -> None:
    assert is_whole([Schema(ID, schema_id=number) for number in ids]) == whole


@pytest.mark.parametrize(
    ("before", "now", "required"),
    [
        ((), (ID, NAME), [True, True]),
        (((ID, OPTIONAL),), (ID, NAME), [True, False]),
        (((ID,),), (ID, NAME), [True, False]),  # added to files that were there
        (((ID,),), (ID, replace(NAME, initial_default="x")), [True, True]),
        (((ID, NAME), (ID,)), (ID, NAME), [True, False]),  # dropped, and brought back by an older schema
        (((ID, NAME),), (ID, OPTIONAL), [True, False]),
    ],
)
def test_a_column_is_required_where_every_file_has_values(
    before: tuple[tuple[NestedField, ...], ...], now: tuple[NestedField, ...], required: list[bool]
) -> None:
    history = [Schema(*fields, schema_id=number) for number, fields in enumerate((*before, now))]
    assert [field.required for field in as_files_hold(now, history)] == required
    assert as_files_hold(now, history[-1:]) == as_files_hold(now, ()) == now


def test_fields_inside_others_are_doubted_as_well() -> None:
    def schema(number: int, *, required: bool) -> Schema:
        inner = StructType(ID, replace(NAME, required=required))
        kind = ListType(element_id=4, element=inner, element_required=True)
        return Schema(NestedField(3, "all", kind, required=True), schema_id=number)

    history = [schema(0, required=False), schema(1, required=True)]
    assert as_files_hold(history[1].fields, history) == schema(1, required=False).fields
