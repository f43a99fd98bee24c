"""Every kind of write concurrently, by threads that each load the table: no write is lost, no deleted row reappears, rows keep their row ids."""

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from icefloe import SqlCatalog, Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])


def rows(start: int, stop: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "part": "ab"[n % 2]} for n in range(start, stop)], schema=SCHEMA)


def delete_positions(table: Table) -> None:
    for n in range(6):
        table.delete(f"id = {n}")


def by_key(table: Table) -> None:
    for n in range(10, 16):
        table.delete_keys(pa.table({"id": [n]}), ["id"])


def together(table: Table) -> None:
    for n in range(4):
        with table.transaction() as tx:
            tx.append(rows(200 + n * 2, 202 + n * 2))
            tx.delete(f"id = {20 + n}")
            tx.delete(f"id = {200 + n * 2}")


def in_both_modes(table: Table) -> None:
    for n in range(30, 34):
        table.set_properties({"write.delete.mode": "copy-on-write" if n % 2 else "merge-on-read"})
        table.delete(f"id = {n}")


def test_concurrent_writes_of_every_kind_are_all_committed(tmp_path: Path) -> None:
    def loaded() -> Table:
        return SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)).load_table("db.t")

    def run(write: Callable[[Table], None]) -> None:
        try:
            write(loaded())
        except BaseException as error:  # noqa: BLE001  shown by the assertion below
            failures.append(error)

    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    patient = {"commit.retry.num-retries": "1000", "commit.retry.min-wait-ms": "2", "commit.retry.max-wait-ms": "50"}
    table = catalog.create_table("db.t", SCHEMA, partition_spec=["part"], properties={"format-version": "3", **patient})
    table.append(rows(0, 100))
    before = {row["id"]: row["_row_id"] for row in table.scan().select("id", "_row_id").to_arrow().to_pylist()}
    failures: list[BaseException] = []
    threads = [threading.Thread(target=run, args=(write,)) for write in (delete_positions, by_key, together, in_both_modes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    read_rows = table.refresh().scan().select("id", "_row_id").to_arrow().to_pylist()
    gone = {*range(6), *range(10, 16), *range(20, 24), *range(30, 34)}
    assert sorted(row["id"] for row in read_rows) == [n for n in range(100) if n not in gone] + [201, 203, 205, 207]
    assert len({row["_row_id"] for row in read_rows}) == len(read_rows) == table.scan().count()
    assert {row["id"]: row["_row_id"] for row in read_rows if row["id"] < 100} == {n: before[n] for n in range(100) if n not in gone}
    live = [
        entry.data_file for manifest in table.current_snapshot().manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)
    ]  # type: ignore[union-attr]
    vectors = [file.referenced_data_file for file in live if file.content_offset is not None]
    assert len(set(vectors)) == len(vectors)
