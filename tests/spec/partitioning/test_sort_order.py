"""Sort orders: defaults, checks and JSON."""

from typing import Any

import pytest

from icefloe.errors import InvalidInputError, MetadataFormatError
from icefloe.spec.partitioning.sort_order import (
    UNSORTED_SORT_ORDER,
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
    check_sort_order,
    rebind_sort_order,
    sort_order_from_json,
    sort_order_to_json,
)
from icefloe.spec.partitioning.transforms import BucketTransform, HourTransform, IdentityTransform, UnknownTransform
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.types import LongType, NestedField, StringType

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
JSON = {
    "order-id": 3,
    "fields": [
        {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"},
        {"transform": "bucket[4]", "source-id": 1, "direction": "desc", "null-order": "nulls-last"},
    ],
}


def test_nulls_are_first_when_ascending_and_last_when_descending() -> None:
    assert SortField(1).null_order is NullOrder.NULLS_FIRST
    assert SortField(1, direction=SortDirection.DESC).null_order is NullOrder.NULLS_LAST
    assert SortField(1, null_order=NullOrder.NULLS_LAST).null_order is NullOrder.NULLS_LAST


def test_the_unsorted_order_has_id_0_and_the_first_sorted_one_has_id_1() -> None:
    assert SortOrder() == UNSORTED_SORT_ORDER
    assert UNSORTED_SORT_ORDER.order_id == 0
    assert UNSORTED_SORT_ORDER.is_unsorted
    assert SortOrder(SortField(1)).order_id == 1


def test_json_survives_a_round_trip() -> None:
    order = sort_order_from_json(JSON)
    second = SortField(1, BucketTransform(4), SortDirection.DESC, NullOrder.NULLS_LAST)
    assert order == SortOrder(SortField(2, IdentityTransform()), second, order_id=3)
    assert sort_order_to_json(order) == JSON
    assert sort_order_from_json({"order-id": 0, "fields": []}) == UNSORTED_SORT_ORDER


@pytest.mark.parametrize(
    ("value", "wheres"),
    [
        (None, ["o.fields", "o.order-id"]),
        ({"order-id": 1, "fields": [5]}, ["o.fields[0]"]),
        (
            {"order-id": 1, "fields": [{}]},
            ["o.fields[0].source-id", "o.fields[0].direction", "o.fields[0].null-order", "o.fields[0].transform"],
        ),
        ({"order-id": 1, "fields": [{**JSON["fields"][0], "direction": "up"}]}, ["o.fields[0].direction"]),  # type: ignore[index]
        ({"order-id": 1, "fields": [{**JSON["fields"][0], "transform": "bucket[0]"}]}, ["o.fields[0].transform"]),  # type: ignore[index]
    ],
)
def test_every_problem_of_the_json_is_listed_with_its_path(value: Any, wheres: list[str]) -> None:
    with pytest.raises(MetadataFormatError) as caught:
        sort_order_from_json(value, where="o")
    assert [problem.where for problem in caught.value.problems] == wheres


def test_sources_in_a_list_are_read_and_written_as_in_the_spec() -> None:
    field = {"transform": "identity", "direction": "asc", "null-order": "nulls-first"}
    assert sort_order_from_json({"order-id": 1, "fields": [{**field, "source-ids": [2]}]}).fields == (SortField(2),)
    order = sort_order_from_json({"order-id": 1, "fields": [{**field, "source-ids": [2, 1]}]})
    assert (order.fields[0].source_ids, order.fields[0].transform) == ((2, 1), UnknownTransform("identity"))
    assert sort_order_to_json(order) == {"order-id": 1, "fields": [{**field, "source-ids": [2, 1]}]}
    check_sort_order(order, SCHEMA, may_be_unknown=True)
    with pytest.raises(InvalidInputError, match="there is no transform 'identity' of 2 columns"):
        check_sort_order(order, SCHEMA)
    with pytest.raises(InvalidInputError, match="no column with field id 9"):
        check_sort_order(SortOrder(SortField(2, UnknownTransform("z"), further_source_ids=(9,))), SCHEMA, may_be_unknown=True)


def test_an_order_that_does_not_fit_the_schema_is_refused_with_every_problem() -> None:
    check_sort_order(sort_order_from_json(JSON), SCHEMA)
    check_sort_order(UNSORTED_SORT_ORDER, SCHEMA)
    with pytest.raises(InvalidInputError) as caught:
        check_sort_order(SortOrder(SortField(9), SortField(1, HourTransform()), order_id=0), SCHEMA)
    assert len(caught.value.problems) == 3


def test_sources_follow_their_columns_to_fresh_ids() -> None:
    fresh = assign_fresh_ids(SCHEMA, first_id=11)
    assert [field.source_id for field in rebind_sort_order(sort_order_from_json(JSON), SCHEMA, fresh).fields] == [12, 11]
    with pytest.raises(InvalidInputError, match="field id 9"):
        rebind_sort_order(SortOrder(SortField(9)), SCHEMA, fresh)
