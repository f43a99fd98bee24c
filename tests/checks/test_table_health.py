"""`icefloe.inspect.health`: every measure against a count by hand, its threshold, and its output."""

import json
import random
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.maintenance.test_rewrite_data_files import SCHEMA, made, small_files
from tests.repetitions import examples

from icefloe import SqlCatalog
from icefloe.checks.table_health import HealthState, TableHealth
from icefloe.errors import InvalidInputError, InvalidSchemaError, NoSuchSnapshotError
from icefloe.inspect import health
from icefloe.maintenance.health_measures import SIZE_CLASSES
from icefloe.table import StaticTable
from icefloe.table.table import Table

LIVE_COUNTS = ("added_data_files", "existing_data_files", "added_delete_files", "existing_delete_files")


def states(measured: TableHealth) -> dict[str, HealthState]:
    return {one.name: one.state for one in measured.measures}


@settings(max_examples=examples(8, least=4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), version=st.sampled_from([1, 2, 3]), spec=st.sampled_from([(), ("kind",), ("bucket(3, id)", "kind")]))
def test_measures_are_those_of_a_count_by_hand(
    tmp_path_factory: pytest.TempPathFactory, seed: int, version: int, spec: tuple[str, ...]
) -> None:
    numbers = random.Random(seed)
    table = made(tmp_path_factory.mktemp("lake"), version, spec, **{"write.delete.mode": "merge-on-read"})
    for step in range(9):
        ids = [numbers.randrange(40) for _ in range(numbers.randrange(1, 12))]
        table.append(pa.table({"id": ids, "kind": [numbers.choice(["a", "b", None]) for _ in ids]}, schema=SCHEMA))
        if version > 1 and numbers.random() < 0.4:
            table.delete(f"id = {numbers.randrange(40)}")
        if version > 1 and numbers.random() < 0.3:
            table.delete_keys(pa.table({"id": [numbers.randrange(40)]}), ["id"])
        if step == 5 and numbers.random() < 0.5:
            with table.update_spec() as update:
                update.add_field("id", "truncate[10]")
    measured = health(table)
    tasks = list(table.scan().plan_files())
    by_partition = Counter((task.spec_id, task.file.partition) for task in tasks)
    assert (measured.files, measured.partition_count) == (len(tasks), len(by_partition))
    assert sorted(one.files for one in measured.partitions) == sorted(by_partition.values())
    assert measured.size_in_bytes == sum(one.size_in_bytes for one in measured.partitions) == sum(t.file.file_size_in_bytes for t in tasks)
    assert measured.records == sum(one.records for one in measured.partitions) == sum(task.file.record_count for task in tasks)
    assert [one.files for one in measured.file_sizes] == [len(tasks), *[0] * len(SIZE_CLASSES)]
    assert all(sum(one.files_by_size) == one.small_files == one.files for one in measured.partitions)
    values = {one.name: one.value for one in measured.measures}
    assert values["small files"] == sum(count for count in by_partition.values() if count >= 5)
    applied = {file.file_path + str(file.content_offset) for task in tasks for file in task.delete_files}
    assert values["dangling delete files"] == len(table.inspect.delete_files()) - len(applied)
    assert values["snapshots to expire"] == 0
    live = [
        row for row in table.inspect.manifests().to_pylist() if any(value for name, value in row.items() if name.startswith(LIVE_COUNTS))
    ]
    manifests = Counter((row["content"], row["partition_spec_id"]) for row in live)  # no scan opens the other ones
    assert {name: value for name, value in values.items() if "manifests of" in name} == {
        f"{'delete' if content else 'data'} manifests of spec {spec_id}": count for (content, spec_id), count in manifests.items()
    }
    assert str(measured)
    assert measured._repr_html_()
    assert json.loads(measured.to_json())["files"] == len(tasks)


def test_a_sound_table_needs_no_care(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 1)
    measured = health(table)
    assert (measured.needs_care, states(measured)["orphan files"]) == ((), HealthState.UNKNOWN)
    assert "Nothing needs care." in str(measured)


@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_decay_is_seen(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version, **{"write.delete.mode": "merge-on-read", "history.expire.max-snapshot-age-ms": "0"})
    small_files(table, 8)
    with table.update_sort_order() as update:
        update.asc("id")
    for _ in range(5):
        table.append(pa.table({"id": [0, 500], "kind": ["a", "b"]}))
    table.delete("id < 4")
    table.delete_keys(pa.table({"id": [12]}), ["id"])
    seen = {one.name for one in health(table).needs_care}
    assert seen == {
        "small files",
        "deleted rows",
        "equality delete files",
        "clustering by id",
        "data manifests of spec 0",
        "snapshots to expire",
    }
    table.maintenance.rewrite_data_files(strategy="sort")
    table.rewrite_manifests()
    table.expire_snapshots()
    assert {one.name for one in health(table).needs_care} == {"dangling delete files"}
    table.maintenance.remove_dangling_deletes()
    assert {one.name for one in health(table).needs_care} <= {"snapshots to expire"}


def test_the_depth_of_a_column_is_that_of_a_count_by_hand(tmp_path: Path) -> None:
    numbers = random.Random(5)
    table = made(tmp_path, spec=("kind",))
    ranges: list[tuple[str, int, int]] = []
    for _ in range(20):
        kind, low = numbers.choice(["a", "b"]), numbers.randrange(50)
        high = low + numbers.randrange(1, 20)
        ranges.append((kind, low, high))
        table.append(pa.table({"id": [low, high], "kind": [kind] * 2}))
    (depth,) = health(table, columns=["id"]).clustering
    expected = [sum(k == kind and other < high and low < top for k, other, top in ranges) for kind, low, high in ranges]
    assert depth.mean_depth == pytest.approx(sum(expected) / len(expected), abs=0.01)
    assert (depth.deep_files, depth.measured_files) == (sum(one >= 4 for one in expected), 20)


def test_columns_of_every_type_are_measured(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    values: list[tuple[pa.DataType, Any, Any]] = [
        (pa.int32(), 1, 5),
        (pa.bool_(), False, True),
        (pa.float64(), 0.5, float("inf")),
        (pa.string(), "a", "b"),
        (pa.binary(), b"a", b"b"),
        (pa.date32(), date(2020, 1, 1), date(2021, 1, 1)),
        (pa.timestamp("us"), datetime(2020, 1, 1), datetime(2021, 1, 1)),
        (pa.decimal128(9, 2), Decimal("1.20"), Decimal("3.40")),
    ]
    fields = [(f"c{number}", kind) for number, (kind, _, _) in enumerate(values)]
    schema = pa.schema([*fields, ("s", pa.struct([("x", pa.int32())]))])
    table = catalog.create_table("db.t", schema)
    for _ in range(2):
        table.append(pa.table({**{f"c{number}": pair for number, (_, *pair) in enumerate(values)}, "s": [{"x": 1}] * 2}, schema=schema))
    measured = health(table, columns=[name for name, _ in fields])
    assert {one.column for one in measured.clustering} == {name for name, _ in fields}
    assert {one.mean_depth for one in measured.clustering} == {2.0}
    assert len(health(table).clustering) == 4
    for name, error in (("s.x", InvalidInputError), ("s", InvalidInputError), ("nope", InvalidSchemaError)):
        with pytest.raises(error):
            health(table, columns=[name])


def test_only_the_shown_partitions_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.maintenance.health_measures.NAMED_PARTITIONS", 3)
    table = made(tmp_path, spec=("id",))
    table.append(pa.table({"id": list(range(10)), "kind": ["a"] * 10}))
    table.append(pa.table({"id": [7, 7], "kind": ["a"] * 2}))
    measured = health(table)
    assert (len(measured.partitions), measured.partition_count, measured.file_sizes[0].files) == (3, 10, 11)
    assert measured.partitions[0].partition == "id=7"
    assert "… and 7 more" in str(measured) or "7 more" in str(measured)


def test_branches_static_tables_and_empty_tables_are_measured(tmp_path: Path) -> None:
    table: Table = made(tmp_path)
    assert (health(table).files, health(table).snapshot_id) == (0, None)
    small_files(table, 2)
    with table.manage_snapshots() as manage:
        manage.create_branch(snapshot_id=table.metadata.current_snapshot_id or 0, branch_name="b")
    table.append(pa.table({"id": [1], "kind": ["a"]}), branch="b")
    assert (health(table).files, health(table, "b").files) == (2, 3)
    assert health(StaticTable.from_metadata(table.metadata_location)).files == 2
    with pytest.raises(NoSuchSnapshotError):
        health(table, "nope")


@pytest.mark.parametrize("version", [2, 3])
def test_the_remedy_for_equality_deletes_removes_those_of_a_lone_file(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    small_files(table, 1)
    table.delete_keys(pa.table({"id": [3]}), ["id"])
    (one,) = health(table).needs_care
    assert (one.name, one.remedy) == ("equality delete files", "convert-equality-deletes")
    table.maintenance.convert_equality_deletes()
    assert health(table).needs_care == ()
