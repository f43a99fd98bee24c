"""Every method that changes a table, called on a table of each format version: after each call DuckDB and Java read the rows that Icefloe reads.

The methods are found by reflection: a new one without a case here fails `test_every_method_that_changes_a_table_has_a_case`.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.oracle.conftest import ORACLES, run
from tests.oracle.rows import comparable

from icefloe import LongType, SqlCatalog
from icefloe.errors import UnsupportedFeatureError
from icefloe.maintenance.table_maintenance import TableMaintenance
from icefloe.operations.available_engines import IN_PROCESS
from icefloe.operations.changes.manage_snapshots import ManageSnapshots
from icefloe.operations.files.update_snapshot import UpdateSnapshot
from icefloe.operations.rows.write_context import write_target
from icefloe.operations.staging import write_audit_publish
from icefloe.spec.manifest.data_file import DataFile
from icefloe.table import Table
from icefloe.table.table_mutations import TableMutations

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("note", pa.string())])
# The objects that `manage_snapshots` and `update_snapshot` return have methods of their own.
NESTED = {"maintenance": TableMaintenance, "manage_snapshots": ManageSnapshots, "update_snapshot": UpdateSnapshot}
# Manifests of version 1 have no sequence numbers, so they are 0; DuckDB refuses such manifests in an upgraded table.
DUCKDB_REFUSES = "'manifest_entry.sequence_number' is only allowed to be NULL for ADDED entries"
# Commits the calls before it; the same as `Table.expire_snapshots`; changes no table, and its copies are read in `test_moved_tables.py`.
NO_CHANGES = {
    "manage_snapshots.commit",
    "maintenance.expire_snapshots",
    "maintenance.rewrite_table_path",
    "maintenance.remove_orphan_files",
}

_DUCKDB = """
import json, sys
sys.path.insert(0, sys.argv[1])
from duckdb_rows import connect
duckdb = connect()
for path, snapshot in json.loads(open(sys.argv[2]).read()):
    try:
        relation = duckdb.sql(f"select * from iceberg_scan('{path}', snapshot_from_id={snapshot})")
        print(json.dumps([dict(zip(relation.columns, row)) for row in relation.fetchall()], default=str))
    except Exception as error:
        print(json.dumps([{"error": str(error)}]))
"""
_JAVA = """
import json
for path, snapshot in json.loads(open({chosen!r}).read()):
    found = spark.read.format("iceberg").option("snapshot-id", snapshot).load(path).collect()
    print("READING " + json.dumps([row.asDict(recursive=True) for row in found], default=str))
"""


def rows(start: int, stop: int, note: str = "n") -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "part": "ab"[n % 2], "note": f"{note}{n}"} for n in range(start, stop)], schema=SCHEMA)


def head(table: Table, branch: str = "main") -> int:
    return table.metadata.refs[branch].snapshot_id


def written(table: Table, numbers: list[int]) -> list[DataFile]:
    """Return new data files that are in no snapshot."""
    return list(IN_PROCESS.write(rows(0, 1000).take(numbers), write_target(table.handle, table.metadata)))


def first(table: Table) -> tuple[DataFile, list[int]]:
    """Return a data file without deletes, and the ids in it."""
    task = next(task for task in table.scan().plan_files() if not task.delete_files)
    found = table.scan().select("id", "_file").to_arrow().to_pylist()
    return task.file, [row["id"] for row in found if row["_file"] == task.file.file_path]


def upsert(table: Table) -> None:
    """Upsert rows that have every column of the table."""
    new = rows(84, 96, "u")
    for field in table.schema().fields[3:]:
        new = new.append_column(field.name, pa.array(range(new.num_rows), pa.int64()))
    table.upsert(new, ["id"])


def staged(table: Table, wap_id: str, number: int) -> int:
    table.set_properties({"write.wap.enabled": "true"})
    with write_audit_publish(wap_id=wap_id):
        table.append(rows(number, number + 2))
    found = next(one for one in table.snapshots() if one.summary.get("wap.id") == wap_id)
    return found.snapshot_id


def rewrite(table: Table) -> None:
    file, ids = first(table)
    with table.update_snapshot().rewrite_files() as update:
        update.validate_from_snapshot(head(table)).delete_file(file)
        for one in written(table, ids):
            update.add_file(one)


def delete_files(table: Table) -> None:
    with table.update_snapshot().delete_files() as update:
        update.delete_file(first(table)[0])


def overwrite_files(table: Table) -> None:
    with table.update_snapshot().overwrite() as update:
        update.delete_file(first(table)[0]).add_file(written(table, [150])[0])


def replace_partitions(table: Table) -> None:
    with table.update_snapshot().replace_partitions() as update:
        update.add_file(written(table, [160, 162])[0])


def row_delta(table: Table) -> None:
    with table.update_snapshot().row_delta() as update:
        update.add_rows(written(table, [170, 172])[0]).remove_rows(first(table)[0])


def append_files(table: Table, kind: str, number: int) -> None:
    with getattr(table.update_snapshot(), kind)() as update:
        update.append_file(written(table, [number])[0])


def update_schema(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("extra", LongType())
    table.append(rows(246, 248))  # a snapshot is read with the schema of its commit


def update_spec(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("id", "bucket[4]", "shard")


def update_sort_order(table: Table) -> None:
    with table.update_sort_order() as update:
        update.asc("id")


def replace_sort_order(table: Table) -> None:
    with table.replace_sort_order() as update:
        update.desc("id")


def update_statistics(table: Table) -> None:
    table.compute_statistics()
    with table.update_statistics() as update:
        update.remove_statistics(head(table))


def expire(table: Table) -> None:
    """Expire an unpublished staged snapshot alone, since the other engines read the older snapshots at the end."""
    gone = staged(table, "gone", 300)
    table.expire_snapshots(snapshot_ids=[gone])
    assert table.snapshot_by_id(gone) is None


def manage(table: Table, do: Callable[[ManageSnapshots], Any]) -> None:
    do(table.manage_snapshots()).commit()


def rollback_to_timestamp(table: Table) -> None:
    moment = next(one.timestamp_ms for one in table.snapshots() if one.snapshot_id == head(table))
    table.append(rows(200, 202))
    manage(table, lambda m: m.rollback_to_timestamp(moment + 1))


def rollback_to_snapshot(table: Table) -> None:
    before = head(table)
    table.append(rows(202, 204))
    manage(table, lambda m: m.rollback_to_snapshot(before))


def cherry_pick(table: Table) -> None:
    source = staged(table, "picked", 210)
    table.append(rows(214, 216))
    manage(table, lambda m: m.cherry_pick(source))


def publish(table: Table) -> None:
    staged(table, "published", 220)
    manage(table, lambda m: m.publish_changes("published"))


def fast_forward(table: Table) -> None:
    manage(table, lambda m: m.replace_branch("audit", "main"))
    table.append(rows(230, 233), branch="audit")
    manage(table, lambda m: m.fast_forward("main", "audit"))


def transaction(table: Table) -> None:
    with table.transaction() as tx:
        tx.append(rows(240, 244))
        tx.delete("id = 241")
        tx.overwrite(rows(244, 246), "id = 240")
        tx.set_properties({"why": "together"})


def rewrite_data_files(table: Table) -> None:
    assert table.maintenance.rewrite_data_files("id < 60", options={"min-input-files": 2}).rewritten_files
    assert table.maintenance.rewrite_data_files(sort_order="id desc", options={"rewrite-all": True}).rewritten_files


def remove_dangling_deletes(table: Table) -> None:
    if table.format_version > 1:
        table.delete_keys(pa.table({"id": [82, 91]}), ["id"])
        table.maintenance.rewrite_data_files(options={"rewrite-all": True})
        assert table.maintenance.remove_dangling_deletes().removed_files


def convert_equality_deletes(table: Table) -> None:
    if table.format_version > 1:
        table.delete_keys(pa.table({"id": [84, 93]}), ["id"])
        assert table.maintenance.convert_equality_deletes().converted_delete_files


def rewrite_position_delete_files(table: Table) -> None:
    if table.format_version > 1:
        table.delete("id in (86, 95)")
        result = table.maintenance.rewrite_position_delete_files(options={"rewrite-all": True})
        assert result.rewritten_files or not table.inspect.delete_files().num_rows


CASES: dict[str, Callable[[Table], Any]] = {
    "append": lambda t: t.append(rows(0, 40)),
    "update_snapshot.fast_append": lambda t: append_files(t, "fast_append", 100),
    "update_snapshot.merge_append": lambda t: append_files(t, "merge_append", 101),
    "update_snapshot.rewrite_files": rewrite,
    "update_snapshot.overwrite": overwrite_files,
    "update_snapshot.replace_partitions": replace_partitions,
    "update_snapshot.row_delta": row_delta,
    "update_snapshot.rewrite_manifests": lambda t: t.update_snapshot().rewrite_manifests().commit(),
    "update_snapshot.delete_files": lambda t: (t.append(rows(40, 80)), delete_files(t)),
    "add_files": lambda t: t.add_files([file.file_path for file in written(t, [180, 182])]),
    "rewrite_manifests": lambda t: t.rewrite_manifests(),
    "maintenance.maintain": lambda t: t.maintenance.maintain(min_age_minutes=0),
    "maintenance.rewrite_data_files": rewrite_data_files,
    "maintenance.convert_equality_deletes": convert_equality_deletes,
    "maintenance.rewrite_position_delete_files": rewrite_position_delete_files,
    "maintenance.remove_dangling_deletes": remove_dangling_deletes,
    "delete": lambda t: t.delete("id in (2, 5, 44, 51)"),
    "overwrite": lambda t: t.overwrite(rows(80, 90, "o"), "id between 50 and 60"),
    "upsert": upsert,
    "dynamic_partition_overwrite": lambda t: t.dynamic_partition_overwrite(rows(90, 110, "d").filter(pa.array([True, False] * 10))),
    "delete_keys": lambda t: t.delete_keys(pa.table({"id": [71, 92]}), ["id"]),
    "transaction": transaction,
    "manage_snapshots.create_branch": lambda t: manage(t, lambda m: m.create_branch(branch_name="audit")),
    "manage_snapshots.create_tag": lambda t: manage(t, lambda m: m.create_tag(tag_name="x")),
    "manage_snapshots.replace_branch": lambda t: manage(t, lambda m: m.replace_branch("audit", "main")),
    "manage_snapshots.replace_tag": lambda t: manage(t, lambda m: m.replace_tag("x", "main")),
    "manage_snapshots.fast_forward": fast_forward,
    "manage_snapshots.rename_branch": lambda t: manage(t, lambda m: m.rename_branch("audit", "audited")),
    "manage_snapshots.set_min_snapshots_to_keep": lambda t: manage(t, lambda m: m.set_min_snapshots_to_keep("audited", 5)),
    "manage_snapshots.set_max_snapshot_age_ms": lambda t: manage(t, lambda m: m.set_max_snapshot_age_ms("audited", 10**12)),
    "manage_snapshots.set_max_ref_age_ms": lambda t: manage(t, lambda m: m.set_max_ref_age_ms("x", 10**12)),
    "manage_snapshots.cherry_pick": cherry_pick,
    "manage_snapshots.publish_changes": publish,
    "manage_snapshots.rollback_to_snapshot": rollback_to_snapshot,
    "manage_snapshots.rollback_to_timestamp": rollback_to_timestamp,
    "manage_snapshots.set_current_snapshot": lambda t: manage(t, lambda m: m.set_current_snapshot(ref_name="audited")),
    "manage_snapshots.remove_branch": lambda t: manage(t, lambda m: m.remove_branch("audited")),
    "manage_snapshots.remove_tag": lambda t: manage(t, lambda m: m.remove_tag("x")),
    "update_schema": update_schema,
    "update_spec": lambda t: (update_spec(t), t.append(rows(250, 254))),
    "update_sort_order": update_sort_order,
    "replace_sort_order": replace_sort_order,
    "update_statistics": update_statistics,
    "compute_statistics": lambda t: t.compute_statistics(),
    "compute_partition_statistics": lambda t: t.compute_partition_statistics(),
    "set_properties": lambda t: t.set_properties({"a": "b"}),
    "remove_properties": lambda t: t.remove_properties("a"),
    "set_location": lambda t: (t.set_location(t.location() + "/moved"), t.append(rows(260, 262))),
    "expire_snapshots": expire,
    "upgrade_table_version": lambda t: (t.upgrade_table_version(min(3, t.format_version + 1)), t.append(rows(270, 272))),
}
# These are repeated with merge-on-read, where the format version supports it.
AGAIN = ["append", "delete", "overwrite", "upsert", "transaction"]


def public(kind: type) -> set[str]:
    return {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}


def mutating_methods() -> set[str]:
    """Return the names of all public methods that change a table: of the table itself, and of the objects that they return.

    `update` and `merge` run as statements in Spark; `test_sql_changes.py` compares those with Java. `update_location` is another name of `set_location`.
    `repair` makes a plan; `test_repaired_tables.py` compares what plans commit. `plan_statistics` and `plan_partition_statistics` are dry runs.
    """
    others = {
        "refresh",
        "name",
        "statistics",
        "update",
        "merge",
        "update_location",
        "repair",
        "plan_statistics",
        "plan_partition_statistics",
    }
    methods = (public(TableMutations) | public(Table)) - others
    nested = {f"{name}.{method}" for name, kind in NESTED.items() for method in public(kind)}
    return (methods - NESTED.keys()) | (nested - NO_CHANGES)


def test_every_method_that_changes_a_table_has_a_case() -> None:
    assert mutating_methods() == CASES.keys()


def steps_of(table: Table, version: int) -> list[tuple[str, str, int, list[str]]]:
    """Call every method, and return for each its name, the metadata location after it, the snapshot of main, and the rows."""
    steps = []
    for mode, names in (("copy-on-write", CASES), ("merge-on-read", AGAIN if version > 1 else [])):
        table.set_properties({"write.delete.mode": mode, "write.merge.mode": mode})
        table.delete()
        for name in names:
            if version == 1 and name == "delete_keys":
                with pytest.raises(UnsupportedFeatureError):
                    CASES[name](table)
                continue
            CASES[name](table)
            found = comparable(table.refresh().scan().to_arrow().to_pylist())
            steps.append((f"{name}, {mode}", table.metadata_location, head(table), found))
    return steps


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2, 3])
def test_others_read_the_same_rows_after_every_operation(tmp_path: Path, version: int, java_script: Callable[..., str]) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=["part"], properties={"format-version": str(version)})
    steps = steps_of(table, version)
    assert len(steps) > len(CASES) - 2
    assert len({snapshot for _, _, snapshot, _ in steps}) > 15
    chosen = tmp_path / "chosen.json"
    chosen.write_text(json.dumps([(location, snapshot) for _, location, snapshot, _ in steps]))
    by_duckdb = run("duckdb", "-c", _DUCKDB, str(ORACLES), str(chosen)).splitlines()
    by_java = [
        line[8:] for line in java_script(_JAVA.format(chosen=str(chosen)), str(tmp_path)).splitlines() if line.startswith("READING ")
    ]
    assert len(by_duckdb) == len(by_java) == len(steps)
    for (name, _, _, icefloe_rows), duckdb, java in zip(steps, by_duckdb, by_java, strict=True):
        if version > 1 or json.loads(duckdb) != [{"error": DUCKDB_REFUSES}]:
            assert comparable(json.loads(duckdb)) == icefloe_rows, f"DuckDB, after {name}"
        assert comparable(json.loads(java)) == icefloe_rows, f"Java, after {name}"
