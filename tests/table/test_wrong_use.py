"""Mistakes of new users: each raises an error with the wrong value and the next step, and changes nothing."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import (
    DecimalType,
    InvalidInputError,
    InvalidPartitionSpecError,
    InvalidPropertyError,
    InvalidSchemaError,
    LongType,
    NestedField,
    Schema,
    SqlCatalog,
    StructType,
)
from icefloe.table import Table

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "money", DecimalType(5, 2)))


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1, "1.00"))
    return table


def rows(number: int, money: str) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "money": pa.array([Decimal(money)], pa.decimal128(5, 2))})


def test_arguments_of_update_in_the_wrong_order_are_refused(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="where is a dict, not a condition of Spark SQL") as refused:
        table.update("id = 20", {"money": 1.0})  # type: ignore[arg-type]
    assert 'update({"fare": "fare * 2"}, where="id = 20")' in str(refused.value)
    with pytest.raises(InvalidInputError, match="expressions by column are a str, not a dict"):
        table.update("money = 1")  # type: ignore[arg-type]


def test_a_filter_of_none_is_refused(table: Table) -> None:
    for attempt in (lambda: table.delete(None), lambda: table.overwrite(rows(2, "2.00"), None)):  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match=r"no filter was given for the rows of lake\.db\.t"):
            attempt()
    assert table.scan().count() == 1
    table.delete()
    assert table.scan().count() == 0


def test_the_error_for_a_value_that_cannot_be_truncated_names_its_column(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("money", "truncate[2]")
    with pytest.raises(InvalidPartitionSpecError, match=r"column money cannot be partitioned by truncate\[2\]"):
        table.append(rows(2, "-999.99"))
    assert table.scan().count() == 1


def test_reserved_properties_cannot_be_set_and_are_ignored_by_a_replaced_table(catalog: SqlCatalog, table: Table) -> None:
    with pytest.raises(InvalidPropertyError, match="current-schema, uuid: not a property that can be set"):
        table.set_properties({"uuid": "another's", "current-schema": "{}", "owner": "me"})
    assert "owner" not in table.properties
    replaced = catalog.replace_table("db.t", table.schema(), properties={"uuid": "another's", "owner": "me"})
    assert "uuid" not in replaced.properties
    assert replaced.properties["owner"] == "me"


def test_a_single_partition_field_is_accepted_as_text_and_a_list_as_sort_order_is_refused(catalog: SqlCatalog) -> None:
    assert [str(field.transform) for field in catalog.create_table("db.one", SCHEMA, partition_spec="bucket(4, id)").spec().fields] == [
        "bucket[4]"
    ]
    with pytest.raises(InvalidInputError, match="a sort order of type list is not understood"):
        catalog.create_table("db.two", SCHEMA, sort_order=["id"])  # type: ignore[arg-type]
    assert not catalog.table_exists("db.two")


def test_a_list_of_fields_and_the_class_of_a_type_are_refused_in_schemas() -> None:
    fields = [NestedField(1, "id", LongType()), NestedField(2, "n", LongType())]
    for made in (Schema, StructType):
        with pytest.raises(InvalidSchemaError, match=r"consists of fields, and this is a list(?s:.)*one NestedField after the other"):
            made(fields)  # type: ignore[arg-type]
    with pytest.raises(InvalidSchemaError, match=r"id: <class '.*LongType'> is not a type; pass one such as LongType\(\)"):
        Schema(NestedField(1, "id", LongType), fields[1])  # type: ignore[arg-type]
