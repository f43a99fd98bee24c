"""Statistics of columns: compared with exact counts, carried over from older statistics, and removed after a failure."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe import SqlCatalog, StaticTable
from icefloe.commit.metadata_change import MetadataChange
from icefloe.errors import (
    CommitConflictError,
    InvalidInputError,
    InvalidSchemaError,
    NoSuchSnapshotError,
    ReadOnlyTableError,
    StorageUnavailableError,
)
from icefloe.operations.metadata_cache import load_metadata
from icefloe.spec.metadata.statistics_file import StatisticsBlob
from icefloe.spec.metadata.statistics_updates import SetStatistics
from icefloe.spec.puffin.puffin_file import Blob, in_memory_puffin, read_blob, read_file_metadata, write_puffin
from icefloe.spec.puffin.theta_sketch import BLOB_TYPE
from icefloe.table import Table
from icefloe.testing.fault_injection import Fault, Faults, FaultyFileIO

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("place", pa.struct([("town", pa.string()), ("at", pa.timestamp("us"))])),
        ("tags", pa.list_(pa.string())),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-5, 40),
        "name": st.none() | st.text(min_size=1, max_size=20),
        "price": st.none() | st.decimals(-1000, 1000, places=2, allow_nan=False),
        "day": st.none() | st.dates(),
        "place": st.none()
        | st.fixed_dictionaries({"town": st.none() | st.sampled_from(["a", "b" * 30, "c"]), "at": st.none() | st.datetimes()}),
        "tags": st.none() | st.lists(st.text(max_size=3), max_size=2),
    }
)
NESTED = ("place.town", "place.at")


def lake(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace_if_not_exists("db")
    return catalog


def make(folder: Path, rows: list[dict[str, Any]] | None = None) -> Table:
    table = lake(folder).create_table("db.t", SCHEMA)
    table.append(pa.Table.from_pylist(rows if rows is not None else [{"id": n, "name": f"n{n % 10}"} for n in range(50)], SCHEMA))
    return table


def exact(rows: list[dict[str, Any]], column: str) -> int:
    found = set()
    for row in rows:
        value: Any = row
        for name in column.split("."):
            value = None if value is None else value[name]
        found.add(value)
    return len(found - {None})


def blob_types(table: Table, snapshot_id: int) -> list[tuple[str, tuple[int, ...], bytes]]:
    (file,) = [file for file in table.metadata.statistics if file.snapshot_id == snapshot_id]
    content = table.io.read(file.statistics_path)
    source = in_memory_puffin(content, file.statistics_path)
    described = read_file_metadata(source)
    assert len(content) == file.file_size_in_bytes
    assert content[-file.file_footer_size_in_bytes :][:4] == b"PFA1"
    assert [(blob.type, blob.fields, dict(blob.properties)) for blob in described.blobs] == [
        (blob.type, blob.fields, dict(blob.properties)) for blob in file.blob_metadata
    ]
    return [(blob.type, blob.fields, read_blob(source, blob)) for blob in described.blobs]


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(ROW, min_size=1, max_size=15), min_size=1, max_size=3))
def test_distinct_values_are_those_of_the_rows(tmp_path_factory: pytest.TempPathFactory, batches: list[list[dict[str, Any]]]) -> None:
    table = make(tmp_path_factory.mktemp("lake"), batches[0])
    for batch in batches[1:]:
        table.append(pa.Table.from_pylist(batch, SCHEMA))
    rows = [row for batch in batches for row in batch]
    statistics = table.compute_statistics()
    assert statistics is not None
    assert statistics.distinct_values == {name: exact(rows, name) for name in ("id", "name", "price", "day")}
    more = table.compute_statistics(NESTED)
    assert more is not None
    assert more.distinct_values == statistics.distinct_values | {name: exact(rows, name) for name in NESTED}
    assert len(table.metadata.statistics) == 1


def test_many_distinct_values_are_estimated_within_some_percent(tmp_path: Path) -> None:
    table = lake(tmp_path).create_table("db.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    for start in (0, 20_000, 30_000):
        numbers = range(start, start + 30_000)
        table.append(pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"a longer name, {n // 2}" for n in numbers]}))
    statistics = table.compute_statistics()
    assert statistics is not None
    assert statistics.distinct_values["id"] == pytest.approx(60_000, rel=0.1)
    assert statistics.distinct_values["name"] == pytest.approx(30_000, rel=0.1)


def test_deleted_rows_are_not_counted(tmp_path: Path) -> None:
    table = make(tmp_path)
    before = table.current_snapshot()
    table.delete("id < 30")
    now = table.compute_statistics(["id"])
    assert before is not None
    assert now is not None
    old = table.compute_statistics(["id"], snapshot_id=before.snapshot_id)
    assert old is not None
    assert (now.distinct_values, old.distinct_values) == ({"id": 20}, {"id": 50})
    assert table.statistics() == now
    assert table.statistics(before.snapshot_id) == old


def test_a_table_without_statistics_or_a_snapshot_returns_none(tmp_path: Path) -> None:
    table = lake(tmp_path).create_table("db.t", SCHEMA)
    assert table.compute_statistics() is None
    assert table.statistics() is None
    table.append(pa.Table.from_pylist([{"id": 1}], SCHEMA))
    assert table.statistics() is None
    table.compute_statistics(["id"])
    table.append(pa.Table.from_pylist([{"id": 2}], SCHEMA))
    older = table.statistics()
    assert older is not None
    assert older.snapshot_id != table.metadata.current_snapshot_id
    with pytest.raises(NoSuchSnapshotError):
        table.statistics(7)
    with pytest.raises(NoSuchSnapshotError):
        table.compute_statistics(snapshot_id=7)


@pytest.mark.parametrize("column", ["tags", "place", "tags.element"])
def test_a_column_that_is_not_primitive_is_refused(tmp_path: Path, column: str) -> None:
    with pytest.raises(InvalidInputError, match=column):
        make(tmp_path).compute_statistics([column])


def test_an_unknown_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSchemaError):
        make(tmp_path).compute_statistics(["nowhere"])


def test_a_table_opened_by_its_metadata_file_reads_statistics_only(tmp_path: Path) -> None:
    table = make(tmp_path)
    statistics = table.compute_statistics(["id"])
    static = StaticTable.from_metadata(table.metadata_location)
    assert static.statistics() == statistics
    with pytest.raises(ReadOnlyTableError):
        static.compute_statistics()


def test_a_blob_of_an_unknown_type_is_listed_and_carried_over(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.compute_statistics(["id", "name"])
    (file,) = table.metadata.statistics
    strange = Blob(
        type="someone-s-histogram",
        fields=(1, 2),
        snapshot_id=5,
        sequence_number=1,
        data=b"counts" * 50,
        compression_codec="lz4",
        properties={"k": "v"},
    )
    source = in_memory_puffin(table.io.read(file.statistics_path), file.statistics_path)
    sketch = read_file_metadata(source).blobs[0]
    bare = Blob(type=BLOB_TYPE, fields=(1,), snapshot_id=5, sequence_number=1, data=read_blob(source, sketch))
    content, described = write_puffin([strange, bare], properties={})
    path = file.statistics_path + ".other"
    table.io.write(path, content)
    blobs = tuple(
        StatisticsBlob(type=blob.type, snapshot_id=5, sequence_number=1, fields=blob.fields, properties=blob.properties)
        for blob in described.blobs
    )
    other = replace(file, statistics_path=path, file_size_in_bytes=len(content), blob_metadata=blobs)
    table.apply(MetadataChange(lambda _: (SetStatistics(other),), ()))
    statistics = table.statistics()
    assert statistics is not None
    assert [(blob.type, blob.columns, blob.distinct_values) for blob in statistics.blobs] == [
        ("someone-s-histogram", ("id", "name"), None),
        (BLOB_TYPE, ("id",), 50),  # from the sketch itself, because the writer omitted the property
    ]
    table.compute_statistics(["name"])
    kept = blob_types(table, file.snapshot_id)
    assert [(kind, fields) for kind, fields, _ in kept] == [(BLOB_TYPE, (2,)), ("someone-s-histogram", (1, 2)), (BLOB_TYPE, (1,))]
    assert kept[1][2] == b"counts" * 50


def test_statistics_are_computed_again_where_the_old_file_is_missing(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.compute_statistics()
    (file,) = table.metadata.statistics
    Path(file.statistics_path).unlink()
    statistics = table.compute_statistics(["id"])
    assert statistics is not None
    assert statistics.distinct_values == {"id": 50}


def test_statistics_of_a_renamed_column_have_its_current_name(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.compute_statistics(["name", "id"])
    with table.update_schema() as update:
        update.rename_column("name", "title")
        update.delete_column("id")
    statistics = table.statistics()
    assert statistics is not None
    assert statistics.distinct_values == {"title": 10, "id": 50}


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.UNAVAILABLE_AFTER, Fault.INTERRUPT_AFTER])
def test_statistics_whose_write_fails_leave_no_file(tmp_path: Path, fault: Fault) -> None:
    table, faults = make(tmp_path), Faults()
    faulty = Table(replace(table.handle, io=FaultyFileIO(table.io, faults)), load_metadata(table.handle))
    faults.order("write", fault, matching=".stats")
    with pytest.raises((StorageUnavailableError, KeyboardInterrupt)):
        faulty.compute_statistics()
    assert not list(tmp_path.rglob("*.stats"))
    assert table.refresh().statistics() is None


def test_statistics_whose_commit_always_conflicts_leave_no_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.set_properties({"commit.retry.num-retries": "0"})
    other = lake(tmp_path).load_table("db.t")
    other.append(pa.Table.from_pylist([{"id": 1, "price": Decimal("1.00"), "day": dt.date(2020, 1, 1)}], SCHEMA))
    with pytest.raises(CommitConflictError):
        table.compute_statistics()
    assert not list(tmp_path.rglob("*.stats"))
    assert table.refresh().compute_statistics() is not None


def test_statistics_of_a_snapshot_are_committed_after_a_concurrent_commit(tmp_path: Path) -> None:
    table = make(tmp_path)
    first = table.metadata.current_snapshot_id
    lake(tmp_path).load_table("db.t").append(pa.Table.from_pylist([{"id": 999}], SCHEMA))
    statistics = table.compute_statistics(["id"])
    assert statistics is not None
    assert (statistics.snapshot_id, statistics.distinct_values) == (first, {"id": 50})
    assert sorted(table.scan().to_arrow()["id"].to_pylist())[-1] == 999
