"""Tables for the tests of metadata tables: one with deletes of every kind, one whose specs and schema changed."""

import datetime as dt
from pathlib import Path

import pyarrow as pa

from icefloe import SqlCatalog
from icefloe.spec.types import StringType
from icefloe.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("time", pa.timestamp("us", "UTC")), ("value", pa.float64())])
BEGIN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def rows(first: int, count: int) -> pa.Table:
    """Return rows in which every fifth value is NaN and every seventh is null."""
    return pa.Table.from_pylist(
        [
            {
                "id": number,
                "part": "ab"[number % 2],
                "time": BEGIN + dt.timedelta(hours=31 * number),
                "value": None if number % 7 == 0 else float("nan") if number % 5 == 0 else number / 4,
            }
            for number in range(first, first + count)
        ],
        schema=SCHEMA,
    )


def new_catalog(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    return catalog


def with_deletes(folder: Path) -> Table:
    """Return a table with position deletes, a deleted key and a deletion vector in two partitions, and with branches and tags."""
    table = new_catalog(folder).create_table("db.t", SCHEMA, partition_spec=["part"], properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(0, 20))
    table.delete("id in (1, 2, 4)")
    table.delete_keys(pa.table({"id": [7]}), ["id"])
    table.upgrade_table_version(3)
    table.delete("id in (9, 13)")
    table.append(rows(20, 10))
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_branch(branch_name="audit").create_tag(snapshot_id=first, tag_name="old").commit()
    return table


def evolved(folder: Path) -> Table:
    """Return a table with two specs, whose first files precede an added, a renamed and a promoted column."""
    catalog = new_catalog(folder)
    table = catalog.create_table("db.e", SCHEMA, partition_spec=["day(time)"])
    table.append(rows(0, 10))
    with table.update_spec() as update:
        update.add_field("part", "identity")
    with table.update_schema() as update:
        update.rename_column("value", "amount")
        update.add_column("note", StringType())
    table.append(rows(10, 10).rename_columns(["id", "part", "time", "amount"]))
    table.delete("id = 3")
    return table
