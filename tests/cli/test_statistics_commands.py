"""The commands `compute-table-stats` and `compute-partition-stats`, and the procedures of these names."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Command

from icefloe import SqlCatalog
from icefloe.errors import InvalidInputError
from icefloe.procedures import call
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.table import Table

JsonCommand = Callable[..., Any]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two snapshots of a table of two partitions."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    schema = pa.schema([("n", pa.int64()), ("kind", pa.string())])
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="kind"))
    table = catalog.create_table("db.t", schema, partition_spec=spec)
    table.append(pa.table({"n": [1, 2, 3], "kind": ["a", "a", "b"]}))
    table.append(pa.table({"n": [3, 4], "kind": ["b", "b"]}))
    return table


def test_distinct_values_of_a_column_and_a_snapshot_are_counted(
    icefloe: Command, as_json: JsonCommand, table: Table, tmp_path: Path
) -> None:
    first = table.snapshots()[0].snapshot_id
    done = as_json("compute-table-stats", "db.t", "--column", "n", "--snapshot", first, "--warehouse", tmp_path)
    assert (done["statistics"]["snapshot_id"], [blob["distinct_values"] for blob in done["statistics"]["blobs"]]) == (first, [3])
    shown = icefloe("compute-table-stats", "db.t", "--warehouse", tmp_path)
    counted = [line.split()[:2] for line in shown.stdout.splitlines() if line.startswith(("n ", "kind "))]
    assert counted == [["n", "4"], ["kind", "2"]]
    refused = icefloe("compute-table-stats", "db.t", "--column", "m", "--warehouse", tmp_path)
    assert refused.exit_code == 1
    assert "there is no field 'm'" in refused.stderr


def test_partitions_are_counted(as_json: JsonCommand, table: Table, tmp_path: Path) -> None:
    done = as_json("compute-partition-stats", "db.t", "--warehouse", tmp_path)["partition_statistics"]
    assert done["snapshot_id"] == table.metadata.current_snapshot_id
    assert [row["data_record_count"] for row in done["partitions"]] == [2, 3]


def test_the_procedures_return_the_files(table: Table, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    (row,) = call(catalog, "compute_table_stats", table="db.t", columns=["kind"])
    (partitions,) = call(catalog, "compute_partition_stats", table="db.t", snapshot_id=table.snapshots()[0].snapshot_id)
    metadata = catalog.load_table("db.t").metadata
    assert row == {"statistics_file": metadata.statistics[0].statistics_path}
    assert partitions == {"partition_statistics_file": metadata.partition_statistics[0].statistics_path}
    with pytest.raises(InvalidInputError, match="column"):
        call(catalog, "compute_table_stats", table="db.t", column="kind")
    catalog.create_table("db.empty", pa.schema([("n", pa.int64())]))
    assert call(catalog, "compute_table_stats", table="db.empty") == []


def test_a_dry_run_shows_what_would_be_read_and_changes_nothing(
    icefloe: Command, as_json: JsonCommand, table: Table, tmp_path: Path
) -> None:
    before = table.refresh().metadata_location
    columns = as_json("compute-table-stats", "db.t", "--column", "n", "--dry-run", "--warehouse", tmp_path)
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    assert (columns["columns"], columns["files"], columns["size_in_bytes"]) == (["n"], len(sizes), sum(sizes))
    partitions = as_json("compute-partition-stats", "db.t", "--dry-run", "--warehouse", tmp_path)
    assert (partitions["files"], partitions["based_on"]) == (2, None)
    refused = icefloe("compute-table-stats", "db.t", "--column", "m", "--dry-run", "--warehouse", tmp_path)
    assert (refused.exit_code, "there is no field 'm'" in refused.stderr) == (1, True)
    assert table.refresh().metadata_location == before

    first = table.snapshots()[0].snapshot_id
    table.compute_partition_statistics(first)
    later = icefloe("compute-partition-stats", "db.t", "--dry-run", "--warehouse", tmp_path).stdout
    assert "1 manifest" in later
    assert str(first) in later
    table.compute_partition_statistics()
    plan = table.plan_partition_statistics()
    assert plan is not None
    assert (plan.files, plan.based_on) == (0, plan.snapshot_id)
    assert table.plan_statistics(["n"], first).files == 2  # type: ignore[union-attr]

    io = table.io
    io.delete(table.metadata.partition_statistics[-1].statistics_path)
    rebuilt = table.plan_partition_statistics()
    assert rebuilt is not None
    assert (rebuilt.files, rebuilt.based_on) == (1, first)
