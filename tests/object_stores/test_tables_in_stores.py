"""Tables in emulators of S3, Azure and Google Cloud Storage: every kind of commit, maintenance, and the number of requests."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.emulators import ObjectStore, RequestLog

from icefloe import Catalog, Table, load_catalog
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.listing import files_of

pytestmark = pytest.mark.emulator
FAR = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def catalog(store: ObjectStore, tmp_path: Path) -> Catalog:
    catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{store.bucket}/warehouse", **store.properties)
    catalog.create_namespace("db")
    return catalog


def rows(start: int, count: int) -> pa.Table:
    return pa.table({"id": range(start, start + count), "kind": [f"k {number % 3}" for number in range(count)]})


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_takes_every_kind_of_commit_and_of_maintenance(catalog: Catalog, version: int) -> None:
    properties = {
        "format-version": str(version),
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "commit.manifest.min-count-to-merge": "3",
    }
    table = catalog.create_table("db.t", rows(0, 1).schema, partition_spec=["kind"], properties=properties)
    for start in range(0, 60, 10):
        table.append(rows(start, 10))
    table.delete("id < 5")
    table.delete("id = 20")
    table.upsert(pa.table({"id": [21, 100], "kind": ["k 1", "new"]}), ["id"])
    expected = sorted({*range(5, 60), 100} - {20})
    assert ids(table) == expected
    assert ids(catalog.load_table("db.t")) == expected
    assert table.scan("id = 21").to_arrow()["kind"].to_pylist() == ["k 1"]
    table.overwrite(rows(200, 3), "kind = 'new'")
    expected = sorted({*expected, 200, 201, 202} - {100})
    assert ids(table) == expected

    before = len(table.scan().plan_files())
    table.maintenance.rewrite_data_files(options={"min-input-files": "2"})
    assert len(table.scan().plan_files()) < before
    table.rewrite_manifests()
    table.expire_snapshots(FAR)
    assert len(table.snapshots()) == 1
    assert ids(catalog.load_table("db.t")) == expected

    orphan = f"{table.location()}/data/kind=k 0/left.parquet"
    table.io.write(orphan, b"x")
    found = table.maintenance.remove_orphan_files(FAR, dry_run=True, force=True)
    assert found.files["path"].to_pylist() == [orphan]
    catalog.purge_table("db.t")
    assert not catalog.table_exists("db.t")
    assert not [name for name in files_of(table.io, f"{catalog.properties['warehouse']}") if not name.endswith("left.parquet")]


def test_a_filtered_scan_makes_at_most_three_requests_for_a_file(s3: ObjectStore, tmp_path: Path) -> None:
    log = RequestLog(s3.properties["s3.endpoint"])
    try:
        properties = {**s3.properties, "s3.endpoint": log.address}
        catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{s3.bucket}/w", **properties)
        catalog.create_namespace("db")
        count = 200_000
        wide = pa.table({f"c{number}": pa.array(range(count), pa.int64()) for number in range(12)})
        table = catalog.create_table(
            "db.t", wide.schema, properties={"write.parquet.row-group-limit": "50000", "write.parquet.compression-codec": "uncompressed"}
        )
        for _ in range(3):
            table.append(wide)
        (size, *_) = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
        assert size > 4 * 1024 * 1024, "a small file would be read as a whole"
        log.requests.clear()
        found = catalog.load_table("db.t").scan("c3 >= 60000 AND c3 < 60010", selected_fields=("c1", "c9")).to_arrow()
        assert found.num_rows == 30
        data = log.of("/data/")
        by_file = {path: [request for request in data if request[1] == path] for _, path, _ in data}
        assert len(by_file) == 3
        assert max(map(len, by_file.values())) <= 3
        assert all(method == "GET" and read for method, _, read in data), "no request is for the size, and none reads the whole file"
    finally:
        log.close()


def test_a_small_file_is_read_by_one_request(s3: ObjectStore, tmp_path: Path) -> None:
    log = RequestLog(s3.properties["s3.endpoint"])
    try:
        properties = {**s3.properties, "s3.endpoint": log.address}
        catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{s3.bucket}/w", **properties)
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", rows(0, 1).schema)
        table.append(rows(0, 10))
        log.requests.clear()
        assert ids(table) == list(range(10))
        assert len(log.of("/data/")) == 1
    finally:
        log.close()


def test_a_file_of_another_size_than_its_manifest_states_is_read_with_a_warning(s3: ObjectStore, tmp_path: Path) -> None:
    catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{s3.bucket}/w", **s3.properties)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", rows(0, 1).schema)
    table.append(rows(0, 10))
    (task,) = table.scan().plan_files()
    other = catalog.create_table("db.u", rows(0, 1).schema, properties={"write.parquet.compression-codec": "uncompressed"})
    other.append(rows(0, 10))
    (same_rows,) = other.scan().plan_files()
    io = load_file_io(s3.properties, s3.bucket, is_trusted=True)
    for content in (io.read(same_rows.file.file_path),):
        assert len(content) != task.file.file_size_in_bytes
        io.write(task.file.file_path, content, overwrite=True)
    with pytest.warns(match="its manifest entry states"):
        assert ids(table) == list(range(10))
