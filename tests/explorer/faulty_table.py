"""A table with six faults that a reader should find on its page.

They are small files in one partition, a sort of no use, a dangling delete, a lost file, a retried commit and a wrong total.
"""

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.checks.stored_table import StoredTable, edit_avro, records_of

from icefloe import SqlCatalog
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("kind", pa.string()), ("amount", pa.float64())])
DAYS = [dt.date(2026, 11, day) for day in range(1, 11)]
SMALL_DAY = dt.date(2026, 11, 7)
# The text of each fault on the page of checks, by the fault.
SIGNS = {
    "small files": "Small files:",
    "a sort of no use": "Clustering by id:",
    "a dangling delete": "dangling-delete",
    "a lost file": "file-missing",
    "a retried commit": "Retried commits: 1",
    "a wrong total": "summary-total",
}


def faulty_table(folder: Path) -> tuple[SqlCatalog, Table]:
    """Return a catalog with the table `shop.orders`, and the table."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("shop")
    properties = {"write.delete.mode": "merge-on-read", "format-version": "2"}
    table = catalog.create_table("shop.orders", SCHEMA, partition_spec=["day"], properties=properties)
    draw = random.Random(7)
    for _ in range(6):  # every file has ids of the whole range: the sort order that follows is of no use to them
        rows = [(draw.randrange(10**6), day) for day in DAYS for _ in range(40)]
        table.append(_rows(rows, draw))
    for _ in range(24):  # one partition gets many small files
        table.append(_rows([(draw.randrange(10**6), SMALL_DAY) for _ in range(3)], draw))
    table.update_sort_order().asc("id").commit()
    with table.update_schema() as update:
        update.add_column("channel", "string")
    table.manage_snapshots().create_tag(_current(table), "before-deletes").commit()
    table.delete("amount < 3")
    table.manage_snapshots().create_branch(_current(table), "audit").commit()
    table = catalog.load_table("shop.orders")
    _retried_append(catalog, draw)
    table = catalog.load_table("shop.orders")
    stored = StoredTable(Path(table.metadata_location))
    _dangling_delete(stored)
    _wrong_total(stored)
    _lost_file(stored)
    return catalog, catalog.load_table("shop.orders")


def _current(table: Table) -> int:
    return int(table.metadata.current_snapshot_id or 0)


def _rows(keys: list[tuple[int, dt.date]], draw: random.Random) -> pa.Table:
    return pa.table(
        {
            "id": [key for key, _ in keys],
            "day": [day for _, day in keys],
            "kind": [draw.choice(("web", "shop", "phone")) for _ in keys],
            "amount": [round(draw.uniform(1, 500), 2) for _ in keys],
        },
        schema=SCHEMA,
    )


def _retried_append(catalog: SqlCatalog, draw: random.Random) -> None:
    """Append with a handle that another writer has overtaken, so that its commit is made again."""
    slow, quick = catalog.load_table("shop.orders"), catalog.load_table("shop.orders")
    quick.append(_rows([(draw.randrange(10**6), DAYS[0]) for _ in range(20)], draw))
    slow.append(_rows([(draw.randrange(10**6), DAYS[1]) for _ in range(20)], draw))


def _dangling_delete(stored: StoredTable) -> None:
    """Remove the data file of a delete file from its manifest, as a writer that drops it without its deletes."""
    deletes = [entry["data_file"] for path in stored.manifests(1) for entry in records_of(path) if entry["status"] != 2]
    target = next(file["referenced_data_file"] for file in deletes if file.get("referenced_data_file"))
    for path in stored.manifests(0):
        if any(entry["data_file"]["file_path"] == target for entry in records_of(path)):
            _mark_deleted(stored, path, target)


def _mark_deleted(stored: StoredTable, manifest: Path, target: str) -> None:
    listed = next(row for row in records_of(stored.manifest_list()) if row["manifest_path"] == str(manifest))
    sequence_number = listed["sequence_number"]

    def change(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            if entry["data_file"]["file_path"] == target:
                entry.update(status=2, sequence_number=sequence_number, file_sequence_number=sequence_number)

    edit_avro(manifest, change)

    def recount(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["manifest_path"] == str(manifest):
                entries = records_of(manifest)
                row["manifest_length"] = manifest.stat().st_size
                for name, status in (("existing", 0), ("added", 1), ("deleted", 2)):
                    mine = [entry["data_file"]["record_count"] for entry in entries if entry["status"] == status]
                    row[f"{name}_files_count"], row[f"{name}_rows_count"] = len(mine), sum(mine)

    stored.edit_every_list(recount)


def _wrong_total(stored: StoredTable) -> None:
    document = json.loads(stored.metadata.read_text())
    live = [
        entry["data_file"] for content in (0, 1) for path in stored.manifests(content) for entry in records_of(path) if entry["status"] != 2
    ]
    data = [file for file in live if file["content"] == 0]
    totals = {"total-data-files": len(data), "total-files-size": sum(file["file_size_in_bytes"] for file in live), "total-records": 99_999}
    document["snapshots"][-1]["summary"].update({name: str(total) for name, total in totals.items()})
    stored.metadata.write_text(json.dumps(document))


def _lost_file(stored: StoredTable) -> None:
    live = [entry["data_file"]["file_path"] for path in stored.manifests(0) for entry in records_of(path) if entry["status"] != 2]
    Path(live[3]).unlink()
