"""Merged and rewritten manifests beside the Java implementation: the same commits leave the same manifests; Java and DuckDB read those of Icefloe."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.commit.made_up_table import BY_NAME, FLAT, MadeUpTable, rows

from icefloe import SqlCatalog
from icefloe.commit.append import Append
from icefloe.commit.overwrite import Overwrite

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

# `a` adds a file, `d` deletes it; files from 10 on are of the second partition spec.
STEPS = ["a0", "a1", "a2", "d1", "a3", "a10", "a4", "a11", "a5", "d0", "a12", "d10", "a6", "a7", "d3", "a13", "a14", "a8", "a9", "d2"]
# The table properties; the target size is a multiple of the size of the table's first manifest.
SETTINGS: list[tuple[Mapping[str, str], float | None]] = [
    ({"commit.manifest.min-count-to-merge": "2"}, None),
    ({"commit.manifest.min-count-to-merge": "3"}, None),
    ({"commit.manifest.min-count-to-merge": "3"}, 2.5),
    ({"commit.manifest.min-count-to-merge": "2"}, 0.5),
    ({"commit.manifest-merge.enabled": "false"}, None),
]

JAVA = r"""
import json
jvm, name = spark.sparkContext._jvm, "t%d"
for number, (settings, size) in enumerate(json.loads(%r)):
    spark.sql("create table j.db.t%%d (id bigint, name string) using iceberg tblproperties ('format-version'='2')" %% number)
    spark.sql("alter table j.db.t%%d add partition field name" %% number)
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, "j.db.t%%d" %% number)
    for key, value in settings.items():
        table.updateProperties().set(key, value).commit()
    specs = table.specs()

    def file(at):
        builder = jvm.org.apache.iceberg.DataFiles.builder(specs.get(1 if at >= 10 else 0)).withPath("d%%d.parquet" %% at).withFormat("parquet")
        builder = builder.withFileSizeInBytes(300).withRecordCount(3)
        return (builder.withPartitionPath("name=a") if at >= 10 else builder).build()

    for step in %r:
        at = int(step[1:])
        if step[0] == "a":
            table.newAppend().appendFile(file(at)).commit()
        else:
            table.newDelete().deleteFile(file(at)).commit()
        table.refresh()
        found = list(table.currentSnapshot().allManifests(table.io()))
        if size and step == "a0":
            table.updateProperties().set("commit.manifest.target-size-bytes", str(int(found[0].length() * size))).commit()
        counts = [[m.partitionSpecId(), m.addedFilesCount(), m.existingFilesCount(), m.deletedFilesCount()] for m in found]
        summary = dict(table.currentSnapshot().summary())
        print("STATE " + json.dumps({"table": number, "manifests": counts, "summary": summary}))
"""


def icefloe_states(settings: Mapping[str, str], size: float | None) -> list[tuple[Any, dict[str, str]]]:
    table = MadeUpTable(2, settings)
    found = []
    for step in STEPS:
        number = int(step[1:])
        if step[0] == "a":
            table.commit(Append([rows(f"d{number}.parquet", 3, "a" if number >= 10 else None)], table.context()))
        else:
            table.commit(Overwrite(removed=[f"d{number}.parquet"], added=[], **table.numbered()))
        manifests = table.manifests()
        if size and step == "a0":
            table.set_property("commit.manifest.target-size-bytes", str(int(manifests[0].manifest_length * size)))
        snapshot = table.metadata.current_snapshot()
        assert snapshot
        counts = [[m.partition_spec_id, m.added_files_count, m.existing_files_count, m.deleted_files_count] for m in manifests]
        found.append((by_spec(counts), dict(snapshot.summary)))
    return found


def by_spec(counts: list[list[Any]]) -> dict[int, list[list[int]]]:
    """Return the manifests of each spec in order. The order between specs has no meaning: manifests of two specs are never merged."""
    found: dict[int, list[list[int]]] = defaultdict(list)
    for spec_id, *others in counts:
        found[spec_id].append(others)
    return dict(found)


def test_the_same_commits_leave_the_same_manifests_as_java_s(java_script: Callable[..., str], tmp_path: Path) -> None:
    assert (FLAT, BY_NAME) == (0, 1)
    printed = java_script(JAVA % (0, json.dumps(SETTINGS), STEPS), str(tmp_path))
    states = [json.loads(line.removeprefix("STATE ")) for line in printed.splitlines() if line.startswith("STATE ")]
    assert len(states) == len(SETTINGS) * len(STEPS)
    merged = 0
    for number, (settings, size) in enumerate(SETTINGS):
        java_states = [state for state in states if state["table"] == number]
        for step, state, (manifests, summary) in zip(STEPS, java_states, icefloe_states(settings, size), strict=True):
            assert manifests == by_spec(state["manifests"]), f"{settings}, {size}, after {step}"
            for key in ("manifests-created", "manifests-kept", "manifests-replaced"):
                if key in state["summary"]:  # older releases count them in some operations alone
                    assert summary[key] == state["summary"][key], f"{key}: {settings}, {size}, after {step}"
            merged += int(summary["manifests-replaced"]) > 1
    assert merged > 10


ENTRIES = r"""
import json, sys
for row in spark.read.format("iceberg").load(%r + "#entries").collect():
    file = row.data_file
    print("ENTRY " + json.dumps([row.status, row.snapshot_id, row.sequence_number, row.file_sequence_number, file.file_path, file.record_count,
        sorted((file.value_counts or {}).items()), sorted((key, bytes(value).hex()) for key, value in (file.lower_bounds or {}).items())]))
"""


@pytest.mark.parametrize("version", [2, 3])
def test_java_and_duckdb_read_tables_after_merges_and_rewrites(
    version: int, duckdb_rows: Callable[..., Any], java_rows: Callable[..., Any], java_script: Callable[..., str], tmp_path: Path
) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("n")
    table = catalog.create_table(
        "n.t",
        pa.schema([("id", pa.int64()), ("kind", pa.string())]),
        partition_spec=["kind"],
        properties={"format-version": str(version), "commit.manifest.min-count-to-merge": "3", "write.delete.mode": "merge-on-read"},
    )
    for number in range(7):
        table.append(pa.table({"id": [number, number + 100], "kind": ["ab"[number % 2]] * 2}))
        if number % 3 == 1:
            table.delete(f"id = {number + 100}")
    assert any(int(snapshot.summary["manifests-replaced"]) > 1 for snapshot in table.snapshots())
    for _ in range(2):
        expected = sorted(table.scan().to_arrow().to_pylist(), key=str)
        assert len(expected) == 12
        metadata = table.metadata_location.removeprefix("file://")
        for read in (java_rows, duckdb_rows):
            assert sorted(({"id": row["id"], "kind": row["kind"]} for row in read(metadata)), key=str) == expected
        printed = java_script(ENTRIES % metadata, str(tmp_path / "java"))
        java_states = [json.loads(line.removeprefix("ENTRY ")) for line in printed.splitlines() if line.startswith("ENTRY ")]
        assert sorted(java_states, key=str) == sorted(our_entries(table), key=str)
        table.rewrite_manifests()


def our_entries(table: Any) -> list[Any]:
    found = []
    for manifest in table.current_snapshot().manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            file = entry.data_file
            lower = sorted([key, value.hex()] for key, value in (file.lower_bounds or {}).items())
            numbers = [int(entry.status), entry.snapshot_id, entry.sequence_number, entry.file_sequence_number]
            counts = sorted([key, value] for key, value in (file.value_counts or {}).items())
            found.append([*numbers, file.file_path, file.record_count, counts, lower])
    return found
