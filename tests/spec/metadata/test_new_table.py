"""A new table's metadata: fresh ids, checked properties, version 2 by default."""

from typing import Any

import pytest

from icefloe.errors import InvalidInputError, InvalidPartitionSpecError, InvalidPropertyError, UnsupportedFormatVersionError
from icefloe.spec.metadata.created_table import created_table
from icefloe.spec.metadata.layout_updates import AddPartitionSpec, AddSchema, SetCurrentSchema, SetDefaultSpec
from icefloe.spec.metadata.metadata_updates import SetLocation
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.sort_order import SortField, SortOrder
from icefloe.spec.partitioning.transforms import IdentityTransform, MonthTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField, StringType, StructType, TimestampType

SCHEMA = Schema(
    NestedField(40, "when", TimestampType(), required=True),
    NestedField(70, "place", StructType(NestedField(71, "city", StringType()))),
    NestedField(10, "n", LongType()),
    schema_id=9,
    identifier_field_ids=[40],
)


def new(**changes: Any) -> TableMetadata:
    return new_table_metadata(**{"location": "memory://t/", "schema": SCHEMA, "table_uuid": "u", "now_ms": 5, **changes})


def test_columns_get_fresh_ids_and_the_spec_and_order_follow_them() -> None:
    spec = PartitionSpec(
        PartitionField(40, 7, MonthTransform(), "when_month"), PartitionField(71, 9, IdentityTransform(), "city"), spec_id=4
    )
    metadata = new(spec=spec, sort_order=SortOrder(SortField(10)))
    assert [(name, metadata.schema().find_id(name)) for name in metadata.schema().column_names] == [
        ("when", 1),
        ("place", 2),
        ("place.city", 4),
        ("n", 3),
    ]
    assert metadata.schema().schema_id == 0
    assert metadata.schema().identifier_field_ids == (1,)
    assert metadata.last_column_id == 4
    assert [(field.source_id, field.field_id) for field in metadata.spec().fields] == [(1, 1000), (4, 1001)]
    assert metadata.spec().spec_id == 0
    assert metadata.last_partition_id == 1001
    assert [key.source_id for key in metadata.sort_order().fields] == [3]
    assert metadata.default_sort_order_id == 1


def test_partition_fields_without_ids_of_a_table_that_updates_create_are_numbered_from_1000() -> None:
    spec = PartitionSpec(PartitionField(40, 0, MonthTransform(), "when_month"), PartitionField(71, 0, IdentityTransform(), "city"))
    updates = (AddSchema(SCHEMA), SetCurrentSchema(-1), AddPartitionSpec(spec), SetDefaultSpec(-1), SetLocation("memory://t/"))
    metadata = created_table(updates, table_uuid="u", now_ms=5)
    assert [(field.source_id, field.field_id) for field in metadata.spec().fields] == [(40, 1000), (71, 1001)]
    assert metadata.last_partition_id == 1001


def test_an_unpartitioned_unsorted_table_has_ids_0() -> None:
    metadata = new()
    assert (metadata.default_spec_id, metadata.last_partition_id, metadata.default_sort_order_id) == (0, 999, 0)
    assert metadata.format_version == 2
    assert metadata.location == "memory://t"
    assert metadata.current_snapshot() is None


def test_the_format_version_comes_from_the_property_and_no_reserved_property_is_kept() -> None:
    metadata = new(properties={"format-version": "1", "owner": "me", "uuid": "another's", "current-snapshot-id": "none"})
    assert metadata.format_version == 1
    assert metadata.properties == {"owner": "me"}
    assert metadata.table_uuid != "another's"
    with pytest.raises(UnsupportedFormatVersionError, match=r"version 4 .it is a draft."):
        new(properties={"format-version": "4"})


def test_specs_and_orders_that_do_not_fit_the_schema_are_refused() -> None:
    with pytest.raises(InvalidPartitionSpecError):
        new(spec=PartitionSpec(PartitionField(10, 1000, MonthTransform(), "n_month")))
    with pytest.raises(InvalidPartitionSpecError):
        new(spec=PartitionSpec(PartitionField(99, 1000, IdentityTransform(), "x")))
    with pytest.raises(InvalidInputError):
        new(sort_order=SortOrder(SortField(99)))
    with pytest.raises(InvalidPropertyError, match=r"write\.target-file-size-bytes"):
        new(properties={"write.target-file-size-bytes": "big"})
