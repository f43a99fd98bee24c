"""Branches, tags, cherry-pick, publishing and rollback by Java and by Icefloe, on the same tables: equal outcomes, histories and rows."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icefloe import IcefloeError, SqlCatalog
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.table import StaticTable, Table

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
# Keys that describe how a snapshot was made and not what it contains.
NOT_COMPARED = re.compile(
    r"manifests-.*|entries-processed|spark\..*|engine-.*|app-.*|iceberg-version|total-files-size|added-files-size|removed-files-size"
)

# Every step is printed with the metadata file before and after it, and whether Java accepted it.
STEPS = r"""
import json, pathlib

sql = spark.sql
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")

def location(name):
    found = [(int(path.name[1:].split(".")[0]), str(path)) for path in pathlib.Path(sys.argv[1], "db", name, "metadata").glob("v*.metadata.json")]
    return max(found)[1]

def step(name, verb, statement, **given):
    before = location(name)
    try:
        sql(statement.format(t="db." + name, **given)).collect()
        taken = True
    except Exception as error:
        taken = str(error)[:300]
    print(json.dumps({"name": name, "verb": verb, "given": given, "before": before, "after": location(name), "taken": taken}))

def head(name, ref="main"):
    return sql(f"select snapshot_id from j.db.{name}.refs where name = '{ref}'").collect()[0][0]

def staged(name, wap_id, statement):
    spark.conf.set("spark.wap.id", wap_id)
    sql(statement)
    spark.conf.unset("spark.wap.id")

PICK = "call j.system.cherrypick_snapshot('{t}', {id})"
PUBLISH = "call j.system.publish_changes('{t}', '{wap_id}')"
ROLLBACK = "call j.system.rollback_to_snapshot('{t}', {id})"
FORWARD = "call j.system.fast_forward('{t}', '{ref}', '{to}')"
SET = "call j.system.set_current_snapshot('{t}', {id})"
for version in (1, 2, 3):
    n = f"t{version}"
    t = "j.db." + n
    properties = f"'format-version'='{version}', 'write.wap.enabled'='true'"
    sql(f"create table {t} (id bigint, part string) using iceberg partitioned by (part) tblproperties ({properties})")
    sql(f"insert into {t} values (1, 'a'), (2, 'b')")
    sql(f"alter table {t} create branch side retain 3 days with snapshot retention 2 snapshots 5 hours")
    sql(f"alter table {t} create tag start retain 7 days")
    sql(f"insert into {t}.branch_side values (10, 'a'), (11, 'c')")
    sql(f"insert into {t} values (3, 'a')")
    second, side = head(n), head(n, "side")
    staged(n, "w1", f"insert into {t} values (4, 'b')")
    staged(n, "w2", f"insert overwrite {t} values (5, 'b'), (6, 'b')")
    sql(f"alter table {t} create branch ahead")
    sql(f"insert into {t}.branch_ahead values (7, 'a')")
    ahead = head(n, "ahead")
    step(n, "cherry_pick", PICK, id=side)
    step(n, "cherry_pick", PICK, id=side)
    step(n, "cherry_pick", PICK, id=second)
    step(n, "publish_changes", PUBLISH, wap_id="w1")
    step(n, "publish_changes", PUBLISH, wap_id="w1")
    step(n, "publish_changes", PUBLISH, wap_id="w2")
    step(n, "publish_changes", PUBLISH, wap_id="w3")
    step(n, "fast_forward", FORWARD, ref="ahead", to="main")
    step(n, "fast_forward", FORWARD, ref="main", to="ahead")
    step(n, "rollback_to_snapshot", ROLLBACK, id=ahead)
    step(n, "rollback_to_snapshot", ROLLBACK, id=second)
    step(n, "publish_changes", PUBLISH, wap_id="w2")
    step(n, "rollback_to_snapshot", ROLLBACK, id=second)
    sql(f"insert into {t} values (8, 'd')")
    step(n, "publish_changes", PUBLISH, wap_id="w2")
    step(n, "set_current_snapshot", SET, id=ahead)
    step(n, "fast_forward", FORWARD, ref="new", to="side")
    step(n, "fast_forward", FORWARD, ref="start", to="main")
    step(n, "fast_forward", FORWARD, ref="main", to="none")
    sql(f"delete from {t}.branch_side where id = 1")
    step(n, "cherry_pick", PICK, id=head(n, "side"))
"""

# Prints the rows of the refs of metadata files that are listed in a file beside the tables.
READ = r"""
import json
for metadata, ref, kind in json.load(open(sys.argv[1] + "/reads.json")):
    found = spark.read.format("iceberg").option(kind, ref).load(metadata).collect()
    print(json.dumps({"metadata": metadata, "ref": ref, "rows": sorted(row["id"] for row in found)}))
"""


def parsed(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def history_of_refs(table: TableReader, known: set[int]) -> dict[str, Any]:
    """Return the retention rules and the history of each ref: known snapshots by their ids, new ones by their summaries."""

    def identity(snapshot: Snapshot) -> Any:
        if snapshot.snapshot_id in known:
            return snapshot.snapshot_id
        return {key: text for key, text in snapshot.summary.items() if not NOT_COMPARED.fullmatch(key)}

    keep = ("type", "min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms")
    return {
        name: ([getattr(ref, rule) for rule in keep], [identity(snapshot) for snapshot in table.ancestors(name)])
        for name, ref in table.refs().items()
    }


def by_us(table: Table, verb: str, given: dict[str, Any]) -> bool:
    try:
        getattr(table.manage_snapshots(), verb)(*given.values()).commit()
    except IcefloeError:
        return False
    return True


def test_every_verb_gives_java_s_history_and_rows(java_script: Callable[..., str], tmp_path: Path) -> None:
    steps = parsed(java_script(STEPS, str(tmp_path)))
    assert len(steps) == 57
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    reads, ours = [], []
    for number, step in enumerate(steps):
        table = catalog.register_table(f"db.t{number}", step["before"])
        before, theirs = dict(table.refs()), StaticTable.from_metadata(step["after"])
        known = {snapshot.snapshot_id for snapshot in table.snapshots()}
        taken = by_us(table, step["verb"], step["given"])
        where = f"{step['name']}: {step['verb']} {step['given']}: Java accepted it: {step['taken']}"
        assert taken == (step["taken"] is True), where
        assert history_of_refs(table, known) == history_of_refs(theirs, known), where
        for name in [name for name, ref in table.refs().items() if before.get(name) != ref]:
            reads += [(table.metadata_location, name, table.refs()[name].type), (step["after"], name, table.refs()[name].type)]
            ours.append(sorted(table.scan().use_ref(name).to_arrow()["id"].to_pylist()))
    assert sum(step["taken"] is True for step in steps) == 24
    (tmp_path / "reads.json").write_text(json.dumps(reads))
    read = [found["rows"] for found in parsed(java_script(READ, str(tmp_path)))]
    assert read == [rows for rows in ours for _ in ("ours", "theirs")]
    assert len(ours) == 24
