"""Statistics files of snapshots: set, replaced and removed through `table.update_statistics()`, alone and with other changes."""

from pathlib import Path

import pyarrow as pa
import pytest

from icefloe import NoSuchSnapshotError, ReadOnlyTableError, SqlCatalog, StaticTable, Table
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsBlob, StatisticsFile

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties={"commit.retry.min-wait-ms": "1"})
    table.append(ROWS)
    table.append(ROWS)
    return catalog


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    return catalog.load_table("db.t")


def statistics(snapshot_id: int, path: str) -> StatisticsFile:
    blob = StatisticsBlob(
        type="apache-datasketches-theta-v1", snapshot_id=snapshot_id, sequence_number=1, fields=(1,), properties={"ndv": "2"}
    )
    return StatisticsFile(
        snapshot_id=snapshot_id, statistics_path=path, file_size_in_bytes=100, file_footer_size_in_bytes=20, blob_metadata=(blob,)
    )


def test_statistics_files_are_set_replaced_and_removed(catalog: SqlCatalog, table: Table) -> None:
    first, second = (snapshot.snapshot_id for snapshot in table.snapshots())
    partition = PartitionStatisticsFile(snapshot_id=second, statistics_path="p", file_size_in_bytes=7)
    with table.update_statistics() as update:
        update.set_statistics(statistics(first, "a")).set_statistics(statistics(second, "b")).set_partition_statistics(partition)
    assert catalog.load_table("db.t").statistics_files() == table.statistics_files() == [statistics(first, "a"), statistics(second, "b")]
    assert table.partition_statistics_files() == [partition]
    with table.update_statistics() as update:
        update.set_statistics(statistics(first, "c")).remove_statistics(second).remove_partition_statistics(second)
    assert (table.refresh().statistics_files(), table.partition_statistics_files()) == ([statistics(first, "c")], [])


def test_a_change_without_effect_commits_nothing_and_an_unknown_snapshot_is_refused(table: Table) -> None:
    location = table.metadata_location
    with table.update_statistics() as update:
        update.remove_statistics(1).remove_partition_statistics(2)
        with pytest.raises(NoSuchSnapshotError, match="statistics file"):
            update.set_statistics(statistics(5, "a"))
        with pytest.raises(NoSuchSnapshotError, match="partition statistics"):
            update.set_partition_statistics(PartitionStatisticsFile(snapshot_id=5, statistics_path="p", file_size_in_bytes=7))
    assert table.refresh().metadata_location == location


def test_statistics_files_are_set_with_concurrent_writers_and_in_a_transaction(catalog: SqlCatalog, table: Table) -> None:
    first = table.snapshots()[0].snapshot_id
    catalog.load_table("db.t").append(ROWS)
    with table.transaction() as tx:
        tx.append(ROWS)
        new = tx.table_metadata.current_snapshot_id
        assert new is not None
        tx.update_statistics().set_statistics(statistics(new, "n")).set_statistics(statistics(first, "a")).commit()
    assert {file.snapshot_id for file in table.statistics_files()} == {first, table.metadata.current_snapshot_id}
    assert table.scan().count() == 8


def test_a_table_opened_by_its_metadata_file_shows_statistics_files_and_refuses_changes(table: Table) -> None:
    with table.update_statistics() as update:
        update.set_statistics(statistics(table.snapshots()[0].snapshot_id, "a"))
    static = StaticTable.from_metadata(table.metadata_location)
    assert static.statistics_files() == table.statistics_files()
    for refused in (static.update_statistics, lambda: static.upgrade_table_version(3), lambda: static.delete_keys(ROWS, ["id"])):
        with pytest.raises(ReadOnlyTableError):
            refused()
