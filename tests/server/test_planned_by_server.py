"""Scans that our own server plans for our own client: the planned files equal those of local planning, for any filter, snapshot, branch, tag and deletes.

The server sends them as a stream, or as JSON to a client that accepts no stream, such as one of an older version: all three plans are equal.
"""

import pickle
from collections.abc import Iterator
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spark.merge_on_read import delete_keys_everywhere, delete_positions
from tests.stores.rest.own_server import own_server
from tests.table.test_planning_elsewhere import FILTERS
from tests.table.test_whole_format import compare_with_model, start

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import InvalidFilterError, InvalidPropertyError
from icefloe.inspect import trace
from icefloe.operations.data_scan import DataScan
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spec.manifest.data_file import FileContent
from icefloe.stores.rest import server_planned_scans
from icefloe.stores.rest.scan_tasks import ScanTaskReader
from icefloe.table import Table

# All tests of this file run in one process of xdist, which starts the server and fills its table once.
pytestmark = pytest.mark.xdist_group("planned by server")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param({}, id="at once"),
        pytest.param({"plan_wait_s": 0.0, "files_of_page": 1}, id="polled in pages", marks=pytest.mark.slow),
    ],
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RestCatalog, RestCatalog]]:
    """A catalog whose scans the server plans, and the same one whose scans are planned here."""
    folder: Path = tmp_path_factory.mktemp("served")
    with own_server(folder, **request.param) as address:
        by_mode = (
            RestCatalog(mode, uri=address, warehouse=str(folder / "lake"), **{"scan-planning-mode": mode}) for mode in ("server", "client")
        )
        server, client = by_mode
        client.create_namespace("db")
        fill(client)
        yield server, client
        server.close()
        client.close()


def fill(catalog: RestCatalog) -> None:
    """Make the table `db.t`: two partition specs, deletes of every kind, a branch, a tag, a renamed column."""
    properties = {"commit.manifest-merge.enabled": "false", "format-version": "2", "write.delete.mode": "merge-on-read"}
    table = catalog.create_table("db.t", rows(0).schema, partition_spec=["kind"], properties=properties)
    for number in range(3):
        table.append(rows(number))
    with table.update_spec() as update:
        update.add_field("id", "bucket[3]", "id_bucket")
    with table.manage_snapshots() as refs:
        refs.create_tag(table.metadata.current_snapshot_id, "early")
    for number in range(3, 6):
        table.append(rows(number))
    files = [task.file for task in table.scan().plan_files()]
    delete_positions(table, {file.file_path: [0] for file in files[::3]})
    delete_keys_everywhere(table, pa.table({"id": pa.array([5, 41], pa.int64())}), ["id"])
    table.delete("id = 53")
    with table.manage_snapshots() as refs:
        refs.create_branch(table.metadata.current_snapshot_id, "side")
    table.append(rows(6), branch="side")
    with table.update_schema() as update:
        update.rename_column("v", "w")
    table.append(rows(7).rename_columns(["id", "kind", "w", 'größe "x"']))


def rows(number: int) -> pa.Table:
    ids = range(number * 10, number * 10 + 10)
    kinds = [None if row % 7 == 0 else 'a"\\b'[row % 3] for row in ids]
    values = [None if row % 5 == 0 else float("nan") if row % 11 == 0 else row / 4 for row in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "kind": kinds, "v": values, 'größe "x"': [str(row) for row in ids]})


def described(plan: ScanPlan) -> list[tuple[Any, ...]]:
    """Return all that a plan has of each file, except for the sequence numbers, which the protocol does not have."""

    def file_of(file: Any) -> tuple[Any, ...]:
        partition = tuple(map(repr, file.partition))
        own = (file.file_path, file.file_format, file.content, file.record_count, file.file_size_in_bytes, file.spec_id, partition)
        statistics = tuple(
            sorted((getattr(file, name) or {}).items())
            for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
        )
        offsets = (file.split_offsets, file.sort_order_id, file.first_row_id, file.content_offset, file.content_size_in_bytes)
        # The statistics of delete files have no place in the protocol.
        return (*own, *offsets, file.equality_ids, file.referenced_data_file, statistics if file.content is FileContent.DATA else ())

    return sorted(
        (*file_of(task.file), str(task.residual), task.spec_id, task.length, sorted(map(file_of, task.delete_files), key=repr))
        for task in plan.tasks()
    )


def both_plans(scan: DataScan, **options: Any) -> tuple[ScanPlan, ScanPlan]:
    """Return the plans that the server sent as a stream and as JSON."""
    with mock.patch.object(ScanTaskReader, "read_stream", autospec=True, side_effect=ScanTaskReader.read_stream) as streams:
        streamed = scan.plan(**options)
        assert streams.called == bool(streamed.parts)
    with mock.patch.object(server_planned_scans, "ACCEPT", {}), mock.patch.object(ScanTaskReader, "read_stream") as streams:
        from_json = scan.plan(**options)
        assert not streams.called
    return streamed, from_json


def columns_of(plan: ScanPlan) -> list[dict[str, Any]]:
    """Return the columns of a plan as values, in the order of the paths."""
    rows: list[dict[str, Any]] = [row for part in plan.parts for row in part.entries.to_pylist()]
    return sorted(rows, key=lambda row: str(row["file_path"]))


def same(there: DataScan, here: DataScan, **options: Any) -> None:
    same_plans(there, here, **options)
    read, expected = there.to_arrow(), here.to_arrow()
    assert read.sort_by("id").equals(expected.sort_by("id")) or repr(read.sort_by("id").to_pylist()) == repr(
        expected.sort_by("id").to_pylist()
    )


def same_plans(there: DataScan, here: DataScan, **options: Any) -> None:
    assert there.is_planned_by_server
    assert not here.is_planned_by_server
    local = here.plan(**options)
    plans = both_plans(there, **options)
    for planned in plans:
        assert planned.is_planned_by_server
        assert described(planned) == described(local)
        assert planned.kept == local.kept
        assert len(planned.delete_files) == len(local.delete_files)
    # Texts, as NaN is not equal to itself.
    streamed, from_json = (repr(columns_of(plan)) for plan in plans)
    assert streamed == from_json


TEXTS = st.recursive(
    FILTERS.map(lambda text: text.replace("v ", "w ")) | st.sampled_from(["kind = '\"'", "kind = '\\\\'", "TRUE", "FALSE", "w = 0.1"]),
    lambda inner: st.builds("NOT ({})".format, inner),
    max_leaves=2,
)


@given(text=TEXTS, statistics=st.booleans(), tested=st.booleans())
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_planned_files_equal_those_of_local_planning(
    served: tuple[RestCatalog, RestCatalog], text: str, statistics: bool, tested: bool
) -> None:
    there, here = (catalog.load_table("db.t").scan(text) for catalog in served)
    same(there, here, include_statistics=statistics, include_tested=tested)


@given(number=st.integers(0, 9), text=st.sampled_from(["TRUE", "id > 25", "kind = 'a'", "kind IS NULL"]))
@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
def test_snapshots_branches_and_tags_are_planned_alike(served: tuple[RestCatalog, RestCatalog], number: int, text: str) -> None:
    tables = [catalog.load_table("db.t") for catalog in served]
    ids = [snapshot.snapshot_id for snapshot in tables[0].snapshots()]
    scans: list[DataScan] = []
    for table in tables:
        scan = table.scan(text)
        match number:
            case 8:
                scans.append(table.scan(text, branch="side"))
            case 9:
                scans.append(scan.use_ref("early"))
            case _:
                scans.append(table.scan(text, snapshot_id=ids[number % len(ids)]))
    same(*scans)


def test_an_old_snapshot_is_filtered_by_the_names_that_it_had(served: tuple[RestCatalog, RestCatalog]) -> None:
    tables = [catalog.load_table("db.t") for catalog in served]
    first = tables[0].snapshots()[0].snapshot_id
    same(*(table.scan("v > 1", snapshot_id=first) for table in tables))
    with pytest.raises(InvalidFilterError):
        tables[0].scan("w > 1", snapshot_id=first).plan()


def test_partitions_of_every_type_and_of_equal_numbers_are_kept_apart(served: tuple[RestCatalog, RestCatalog]) -> None:
    numbers = [0.0, -0.0, None, float("inf"), float("nan")]
    columns = {
        "id": pa.array(range(5), pa.int64()),
        "d": pa.array(numbers, pa.float64()),
        "f": pa.array(numbers, pa.float32()),
        "b": pa.array([True, False, None, True, False]),
        "n": pa.array([Decimal("1.50"), Decimal("0.00"), None, Decimal("-7.25"), Decimal("1.50")], pa.decimal128(9, 2)),
        "x": pa.array([b"", b"\0a", None, b"a", b"b"], pa.binary()),
        "t": pa.array([0, -1, None, 1, 10**15], pa.timestamp("us")),
    }
    rows = pa.table(columns)
    names = [name for name in columns if name != "id"]
    table = served[1].create_table("db.kinds", rows.schema, partition_spec=names)
    table.append(rows)
    there, here = (catalog.load_table("db.kinds").scan() for catalog in served)
    partitions = [[repr(task.file.partition) for task in plan.tasks()] for plan in (*both_plans(there), here.plan())]
    assert sorted(partitions[0]) == sorted(partitions[1]) == sorted(partitions[2])
    assert len(set(partitions[0])) == len(numbers)


def test_names_are_matched_without_case_where_the_scan_does(served: tuple[RestCatalog, RestCatalog]) -> None:
    same(*(catalog.load_table("db.t").scan("KIND = 'a' AND ID > 3", case_sensitive=False) for catalog in served))


def test_appended_rows_are_planned_alike(served: tuple[RestCatalog, RestCatalog]) -> None:
    tables = [catalog.load_table("db.t") for catalog in served]
    ids = [snapshot.snapshot_id for snapshot in tables[0].ancestors()]
    same(*(table.incremental_append_scan(from_snapshot_id_exclusive=ids[-3]) for table in tables))
    # From the table's first snapshot on the protocol has no form, so that it is planned here.
    since_ever = tables[0].incremental_append_scan()
    assert not since_ever.is_planned_by_server
    assert not since_ever.plan().is_planned_by_server


def test_a_limit_needs_only_the_first_files(served: tuple[RestCatalog, RestCatalog]) -> None:
    there = served[0].load_table("db.t").scan(limit=3)
    assert there.to_arrow().num_rows == 3
    assert served[0].load_table("db.t").scan().count() == served[1].load_table("db.t").scan().count()


def test_a_comparison_that_json_cannot_hold_is_tested_here(served: tuple[RestCatalog, RestCatalog]) -> None:
    there, here = (catalog.load_table("db.t").scan("w < 9e999 AND id > 12") for catalog in served)
    assert there.plan().is_planned_by_server
    assert there.to_arrow().sort_by("id")["id"] == here.to_arrow().sort_by("id")["id"]


@pytest.mark.parametrize("text", ["id IN ({})", "id NOT IN ({})", "kind = 'a' AND id IN ({})", "NOT id NOT IN ({}) OR kind = 'b'"])
def test_of_a_set_of_many_values_the_range_is_sent_and_the_rest_is_tested_here(
    served: tuple[RestCatalog, RestCatalog], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(server_planned_scans, "MOST_VALUES", 3)
    by_server, by_client = (catalog.load_table("db.t").scan(text.format("1, 5, 30, 31, 33")) for catalog in served)
    rows_of = [sorted(map(str, scan.to_arrow().to_pylist())) for scan in (by_server, by_client)]
    assert rows_of[0] == rows_of[1]
    assert rows_of[0]


def test_a_scan_that_the_server_plans_works_in_another_process(served: tuple[RestCatalog, RestCatalog]) -> None:
    scan = served[0].load_table("db.t").scan("id > 25")
    assert described(pickle.loads(pickle.dumps(scan)).plan()) == described(scan.plan())


def test_the_trace_of_a_scan_shows_that_the_server_planned_it(served: tuple[RestCatalog, RestCatalog]) -> None:
    there, here = (catalog.load_table("db.t") for catalog in served)
    shown = str(trace(there, "id > 25"))
    assert "planned by the server" in shown
    assert "planned by the server" not in str(trace(here, "id > 25"))
    assert "planned by the server" in repr(there.scan("id > 25"))
    kept = [decision.path for decision in trace(there, "id > 25").files.kept]
    assert sorted(kept) == sorted(task.file.file_path for task in here.scan("id > 25").plan_files())


NUMBERS = count()


@given(data=st.data())
@settings(max_examples=examples(8, least=3), suppress_health_check=list(HealthCheck))
def test_a_random_table_has_the_rows_of_the_model(served: tuple[RestCatalog, RestCatalog], data: st.DataObject) -> None:
    table: Table = start(served[0], f"db.random{next(NUMBERS)}", data)
    assert table.scan().is_planned_by_server
    compare_with_model(table, data, 5)
    there, here = (catalog.load_table(table.name()).scan() for catalog in served)
    same_plans(there, here, include_statistics=data.draw(st.booleans(), label="statistics"))


def test_an_interrupted_plan_is_cancelled(served: tuple[RestCatalog, RestCatalog], monkeypatch: pytest.MonkeyPatch) -> None:
    table = served[0].load_table("db.t")
    sent: list[str] = []
    send = server_planned_scans.RestScanPlanner._send

    def interrupted(self: Any, endpoint: Any, **more: Any) -> Any:
        sent.append(endpoint.name)
        if endpoint.name in ("FETCH_PLAN", "FETCH_TASKS"):
            raise KeyboardInterrupt
        return send(self, endpoint, **more)

    monkeypatch.setattr(server_planned_scans.RestScanPlanner, "_send", interrupted)
    try:
        table.scan("id > 4").plan()
    except KeyboardInterrupt:
        assert sent[-1] == "CANCEL_PLAN"
    else:
        assert sent == ["PLAN"]


def test_the_mode_is_client_or_server(tmp_path: Path) -> None:
    with own_server(tmp_path) as address:
        catalog = RestCatalog("x", uri=address, warehouse=str(tmp_path / "lake"), **{"scan-planning-mode": "both"})
        catalog.create_namespace("db")
        with pytest.raises(InvalidPropertyError, match="scan-planning-mode"):
            catalog.create_table("db.t", rows(0).schema)
