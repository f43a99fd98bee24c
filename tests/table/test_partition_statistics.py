"""Statistics of partitions: compared with a full count of the manifest entries, computed in full and from earlier statistics."""

import datetime as dt
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe import SqlCatalog, StaticTable
from icefloe.commit.metadata_change import MetadataChange
from icefloe.errors import CommitConflictError, InvalidInputError, NoSuchSnapshotError, ReadOnlyTableError
from icefloe.spec.manifest.data_file import FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.metadata.statistics_updates import RemovePartitionStatistics, SetPartitionStatistics
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("day", pa.date32()), ("level", pa.float64())])
MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}
ROW = st.fixed_dictionaries(
    {
        "id": st.integers(0, 20),
        "kind": st.none() | st.sampled_from("abc"),
        "day": st.none() | st.dates(dt.date(2020, 1, 1), dt.date(2020, 1, 3)),
        "level": st.none() | st.sampled_from([0.5, float("nan"), -0.0, 0.0]),
    }
)
STEP = st.one_of(
    st.tuples(st.just("append"), st.lists(ROW, min_size=1, max_size=8)),
    st.tuples(st.just("delete"), st.integers(0, 20)),
    st.tuples(st.just("drop kind"), st.sampled_from("abc")),
    st.tuples(st.just("evolve"), st.sampled_from(["add level", "remove kind", "add kind", "bucket"])),
    st.tuples(st.just("compute"), st.none()),
)


def lake(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    return catalog


def make(folder: Path, version: int = 2, spec: tuple[str, ...] = ("kind", "day"), **properties: str) -> Table:
    return lake(folder).create_table("db.t", SCHEMA, partition_spec=list(spec), properties={"format-version": str(version), **properties})


def rows(*values: tuple[int, str | None]) -> pa.Table:
    return pa.Table.from_pylist([{"id": number, "kind": kind} for number, kind in values], SCHEMA)


def plain(value: Any) -> Any:
    """Return a form of the value that can be compared and used as a key, NaN too."""
    if isinstance(value, float):
        return repr(value)
    return (value - dt.date(1970, 1, 1)).days if isinstance(value, dt.date) else value


def brute_force(table: Table, snapshot_id: int) -> dict[Any, dict[str, Any]]:
    """Count by partition and spec, one entry after the other; partitions without a live file are omitted."""
    snapshot = table.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    ids = sorted({field.field_id for spec in table.specs().values() for field in spec.fields})
    found: dict[Any, dict[str, Any]] = defaultdict(lambda: defaultdict(int))
    live = set()
    for manifest in snapshot.manifests(table.io):
        spec = table.specs()[manifest.partition_spec_id]
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            file = entry.data_file
            values = dict(zip([field.field_id for field in spec.fields], file.partition, strict=True))
            key = (tuple(plain(values.get(field_id)) for field_id in ids), spec.spec_id)
            counts = found[key]
            if entry.status is not ManifestEntryStatus.DELETED:
                live.add(key)
                if file.content is FileContent.DATA:
                    names = {
                        "data_record_count": file.record_count,
                        "data_file_count": 1,
                        "total_data_file_size_in_bytes": file.file_size_in_bytes,
                    }
                elif file.content is FileContent.EQUALITY_DELETES:
                    names = {"equality_delete_record_count": file.record_count, "equality_delete_file_count": 1}
                else:
                    kind = "dv_count" if file.file_format is FileFormat.PUFFIN else "position_delete_file_count"
                    names = {"position_delete_record_count": file.record_count, kind: 1}
                for name, count in names.items():
                    counts[name] += count
            entry_snapshot = table.snapshot_by_id(entry.snapshot_id or 0)
            if entry_snapshot is not None and entry_snapshot.timestamp_ms >= counts["last_updated_at"]:
                counts["last_updated_at"], counts["last_updated_snapshot_id"] = entry_snapshot.timestamp_ms, entry_snapshot.snapshot_id
    return {key: found[key] for key in live}


def as_found(statistics: pa.Table) -> dict[Any, dict[str, Any]]:
    """Return the rows by partition and spec; partitions without files are omitted."""
    found = {}
    for row in statistics.to_pylist():
        key = (tuple(map(plain, row.pop("partition").values())), row.pop("spec_id"))
        assert key not in found
        found[key] = row
    return {key: row for key, row in found.items() if any(count for name, count in row.items() if name.endswith(("_count", "_bytes")))}


def check(table: Table, snapshot_id: int, statistics: pa.Table) -> None:
    expected, found = brute_force(table, snapshot_id), as_found(statistics)
    assert found.keys() == expected.keys()
    has_deletes = any(row["position_delete_file_count"] or row["equality_delete_file_count"] for row in expected.values())
    for key, row in found.items():
        total, by = row.pop("total_record_count"), row.pop("last_updated_snapshot_id")
        assert row == {name: expected[key][name] for name in row}
        assert table.snapshot_by_id(by).timestamp_ms == row["last_updated_at"]  # type: ignore[union-attr]
        assert total == (None if has_deletes else row["data_record_count"] - row["position_delete_record_count"])
    if not has_deletes:
        assert (
            sum(row["data_record_count"] - row["position_delete_record_count"] for row in found.values())
            == table.scan(snapshot_id=snapshot_id).count()
        )


def change(table: Table, step: tuple[str, Any]) -> None:
    kind, value = step
    if kind == "append":
        table.append(pa.Table.from_pylist(value, SCHEMA))
    elif kind == "delete":
        table.delete(f"id = {value}")
    elif kind == "drop kind":
        table.delete(f"kind = '{value}'")
    elif kind == "compute":
        table.compute_partition_statistics()
    else:
        names = {field.name for field in table.spec().fields if str(field.transform) != "void"}
        with table.update_spec() as update:
            if value == "add level" and "level" not in names:
                update.add_field("level", "identity")
            elif value == "remove kind" and "kind" in names:
                update.remove_field("kind")
            elif value == "add kind" and "kind" not in names:
                update.add_field("kind", "identity")
            elif value == "bucket" and "b" not in names:
                update.add_field("id", "bucket[3]", "b")


@pytest.mark.parametrize(("version", "properties"), [(1, {}), (2, {}), (2, MERGE_ON_READ), (3, {}), (3, MERGE_ON_READ)])
def test_the_statistics_of_every_partition_equal_a_count_of_its_entries(
    tmp_path_factory: pytest.TempPathFactory, version: int, properties: dict[str, str]
) -> None:
    @settings(max_examples=examples(6, least=3), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(STEP, min_size=1, max_size=6))
    def run(steps: list[tuple[str, Any]]) -> None:
        table = make(tmp_path_factory.mktemp("lake"), version, **properties)
        for step in steps:
            change(table, step)
        snapshot_id = table.metadata.current_snapshot_id
        statistics = table.compute_partition_statistics()
        if snapshot_id is None:
            assert statistics is None
            return
        check(table, snapshot_id, statistics)
        assert repr(statistics.to_pylist()) == repr(
            table.partition_statistics(snapshot_id).to_pylist()
        )  # compared as text, because NaN does not equal itself
        order = [(tuple((value is not None, value) for value in row["partition"].values())) for row in statistics.to_pylist()]
        if not any(value != value for partition in order for _, value in partition):  # noqa: PLR0124 - NaN, which Python does not sort
            assert order == sorted(order)
        assert len([file for file in table.metadata.partition_statistics if file.snapshot_id == snapshot_id]) == 1
        table.apply(MetadataChange(lambda base: [RemovePartitionStatistics(file.snapshot_id) for file in base.partition_statistics], ()))
        check(table, snapshot_id, table.compute_partition_statistics())

    run()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_the_statistics_file_has_the_default_file_format_of_the_table(tmp_path: Path, file_format: str) -> None:
    table = make(tmp_path, **{"write.format.default": file_format})
    table.append(rows((1, "a"), (2, None), (3, "b")))
    statistics = table.compute_partition_statistics()
    (file,) = table.metadata.partition_statistics
    assert file.statistics_path.endswith(f".{file_format}")
    assert Path(file.statistics_path).stat().st_size == file.file_size_in_bytes
    assert [row["partition"]["kind"] for row in statistics.to_pylist()] == [None, "a", "b"]
    assert [row["total_record_count"] for row in statistics.to_pylist()] == [1, 1, 1]
    check(table, table.metadata.current_snapshot_id or 0, statistics)


@pytest.mark.parametrize(("version", "last"), [(2, "last_updated_snapshot_id"), (3, "dv_count")])
def test_the_statistics_file_has_the_field_ids_of_the_spec(tmp_path: Path, version: int, last: str) -> None:
    table = make(tmp_path, version)
    table.append(rows((1, "a")))
    table.compute_partition_statistics()
    (file,) = table.metadata.partition_statistics
    schema = pq.read_schema(file.statistics_path)
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in schema]
    assert ids == list(range(1, 13 if version == 2 else 14))
    assert schema.names[-1] == last
    partition = schema.field("partition").type
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in partition] == [1000, 1001]


def test_a_partition_without_remaining_files_has_zeros(tmp_path: Path) -> None:
    table = make(tmp_path, spec=("kind",))
    table.append(rows((1, "a"), (2, "b")))
    table.compute_partition_statistics()
    table.delete("kind = 'a'")
    (a, b) = table.compute_partition_statistics().to_pylist()
    assert (a["partition"]["kind"], a["data_file_count"], a["total_record_count"]) == ("a", 0, 0)
    assert a["last_updated_snapshot_id"] == table.metadata.current_snapshot_id
    assert b["data_record_count"] == 1


def test_statistics_of_an_ancestor_are_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    for number in range(5):
        table.append(rows((number, "a")))
    table.compute_partition_statistics()
    old = {manifest.manifest_path for manifest in table.current_snapshot().manifests(table.io)}  # type: ignore[union-attr]
    table.append(rows((9, "b")))
    read: list[str] = []
    plain_read = type(table.io).read
    monkeypatch.setattr(type(table.io), "read", lambda self, location: (read.append(location), plain_read(self, location))[1])
    statistics = table.compute_partition_statistics()
    assert not old.intersection(read)
    check(table, table.metadata.current_snapshot_id or 0, statistics)


@pytest.mark.parametrize("damage", ["gone", "torn", "wrong"])
def test_damaged_statistics_of_an_ancestor_are_not_reused(tmp_path: Path, damage: str) -> None:
    table = make(tmp_path)
    table.append(rows((1, "a"), (2, "b")))
    table.compute_partition_statistics()
    (file,) = table.metadata.partition_statistics
    path = Path(file.statistics_path)
    if damage == "gone":
        path.unlink()
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        stored = pq.read_table(path)
        place = stored.schema.get_field_index("data_file_count")
        pq.write_table(stored.set_column(place, stored.schema.field(place), pa.array([7, 7], pa.int32())), path)
        table.apply(MetadataChange(lambda _: (SetPartitionStatistics(replace(file, file_size_in_bytes=path.stat().st_size)),), ()))
    table.append(rows((3, "a")))
    check(table, table.metadata.current_snapshot_id or 0, table.compute_partition_statistics())


def test_statistics_of_version_2_are_read_after_the_upgrade(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows((1, "a")))
    table.compute_partition_statistics()
    table.set_properties({"format-version": "3"})
    with table.update_spec() as update:
        update.add_field("level", "identity")
    (row,) = table.partition_statistics().to_pylist()
    assert row["dv_count"] == 0
    assert row["partition"] == {"kind": "a", "day": None, "level": None}
    table.append(rows((2, "a"), (3, None)))
    check(table, table.metadata.current_snapshot_id or 0, table.compute_partition_statistics())


def test_statistics_of_an_older_snapshot_are_separate(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows((1, "a")))
    first = table.metadata.current_snapshot_id
    table.append(rows((2, "a")))
    assert [row["data_record_count"] for row in table.compute_partition_statistics(first).to_pylist()] == [1]
    assert table.partition_statistics().num_rows == 1
    assert [row["data_record_count"] for row in table.compute_partition_statistics().to_pylist()] == [2]
    assert len(table.metadata.partition_statistics) == 2
    with pytest.raises(NoSuchSnapshotError):
        table.partition_statistics(5)
    with pytest.raises(NoSuchSnapshotError):
        table.compute_partition_statistics(5)


def test_an_unpartitioned_table_has_no_partition_statistics(tmp_path: Path) -> None:
    table = make(tmp_path, spec=())
    table.append(rows((1, "a")))
    assert table.partition_statistics() is None
    with pytest.raises(InvalidInputError, match="no partition field"):
        table.compute_partition_statistics()


def test_a_table_opened_by_its_metadata_file_only_reads_partition_statistics(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows((1, "a")))
    statistics = table.compute_partition_statistics()
    static = StaticTable.from_metadata(table.metadata_location)
    assert static.partition_statistics().equals(statistics)
    with pytest.raises(ReadOnlyTableError):
        static.compute_partition_statistics()


def test_partition_statistics_whose_commit_always_conflicts_leave_no_file(tmp_path: Path) -> None:
    table = make(tmp_path, **{"commit.retry.num-retries": "0"})
    table.append(rows((1, "a")))
    lake(tmp_path).load_table("db.t").append(rows((2, "a")))
    with pytest.raises(CommitConflictError):
        table.compute_partition_statistics()
    assert not list(tmp_path.rglob("partition-stats-*"))
