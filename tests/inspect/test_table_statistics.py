"""The inspection of statistics files of a table."""

import json
from pathlib import Path

import pytest
from tests.inspect.example import make_lake

import icefloe.inspect as look
from icefloe.errors import NoSuchSnapshotError
from icefloe.table import Table


@pytest.fixture
def counted(tmp_path: Path) -> Table:
    _, table = make_lake(tmp_path)
    table.compute_statistics(["id", "type", "place.lat"])
    with table.update_spec() as update:
        update.add_field("id", "bucket[4]")
    table.compute_partition_statistics()
    return table


def test_distinct_values_and_partitions_are_shown(counted: Table) -> None:
    view = look.statistics(counted)
    assert view.statistics is not None
    assert view.statistics.distinct_values == {"id": 400, "type": 2, "place.lat": 1}
    assert view.partition_statistics is not None
    live = [line for line in view.partition_statistics.partitions if line.data_file_count]
    assert sum(line.data_record_count for line in live) == 400
    assert {line.partition["type"] for line in live} == {"c8y_Alarm", "c8y_Event"}
    assert {tuple(line.partition) for line in live} == {("time_month", "type")}  # the fields of the spec of the rows
    assert min(line.partition["time_month"] for line in live) == "2023-09"
    text = str(view)
    assert "place.lat" in text
    assert "time_month = 2023-09" in text
    assert "(current)" in text
    printed = json.loads(view.to_json())
    assert printed["statistics"]["blobs"][0]["distinct_values"] == 400
    assert printed["partition_statistics"]["partitions"][0]["partition"]["type"]


def test_the_inspection_of_a_table_without_statistics_names_the_methods_that_compute_them(events: Table) -> None:
    view = look.statistics(events)
    assert (view.statistics, view.partition_statistics) == (None, None)
    assert "compute_statistics()" in str(view)
    assert "compute_partition_statistics()" in str(view)


def test_statistics_of_a_snapshot_without_them_are_none(counted: Table) -> None:
    first = counted.snapshots()[0].snapshot_id
    assert look.statistics(counted, first).statistics is None
    with pytest.raises(NoSuchSnapshotError):
        look.statistics(counted, 3)
