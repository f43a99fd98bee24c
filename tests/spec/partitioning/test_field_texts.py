"""Partition fields and sort fields whose transform, direction and null order are passed as texts."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import DayTransform, IdentityTransform, PartitionField, PartitionSpec, SortField, SortOrder, SqlCatalog
from icefloe.errors import InvalidInputError
from icefloe.spec.partitioning.sort_order import NullOrder, SortDirection

ANY: Any = None


def test_a_transform_may_be_passed_as_its_text(tmp_path: Path) -> None:
    assert PartitionField(1, 1000, ANY or "day", "d").transform == DayTransform()
    assert SortField(1, ANY or "identity").transform == IdentityTransform()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table(
        "db.t",
        pa.schema([("n", pa.int64()), ("day", pa.date32())]),
        partition_spec=PartitionSpec(PartitionField(2, 1000, ANY or "month", "by_month")),
        sort_order=SortOrder(SortField(1, ANY or "identity", ANY or "desc")),
    )
    assert (str(table.spec().fields[0].transform), str(table.sort_order().fields[0].transform)) == ("month", "identity")
    assert table.sort_order().fields[0].null_order is NullOrder.NULLS_LAST


def test_directions_and_null_orders_may_be_passed_as_texts() -> None:
    assert SortField(1, direction=ANY or "desc") == SortField(1, direction=SortDirection.DESC)
    assert SortField(1, null_order=ANY or "nulls-last").null_order is NullOrder.NULLS_LAST


@pytest.mark.parametrize(
    "arguments", [{"transform": 5}, {"transform": None}, {"transform": "bucket[0]"}, {"direction": "up"}, {"null_order": "first"}], ids=str
)
def test_an_invalid_text_of_a_field_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        SortField(1, **arguments)
    if "transform" in arguments:
        with pytest.raises(InvalidInputError):
            PartitionField(1, 1000, arguments["transform"], "p")


def test_an_unknown_transform_is_refused_by_name(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    with pytest.raises(InvalidInputError, match="no transform 'dya'"):
        catalog.create_table(
            "db.t", pa.schema([("n", pa.date32())]), partition_spec=PartitionSpec(PartitionField(1, 1000, ANY or "dya", "d"))
        )
