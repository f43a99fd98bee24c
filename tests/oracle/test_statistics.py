"""Statistics compared with Java's: sketches byte for byte, partitions row for row; Java builds on the files that Icefloe wrote."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe import SqlCatalog, StaticTable
from icefloe.spec.puffin.puffin_file import in_memory_puffin, read_blob, read_file_metadata
from icefloe.table import Table

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

COLUMNS = """b boolean, i int, l bigint, f float, d double, dt date, ts timestamp, tn timestamp_ntz, s string, bin binary, dec decimal(10,2),
 dec2 decimal(30,5), p string"""
# Tables of both versions with deletes, an evolved spec and a partition without files any more; and one with more values than a sketch keeps.
MAKE = f'''
q = spark.sql
for v in (2, 3):
    t = f"j.db.t{{v}}"
    q(f"""create table {{t}} ({COLUMNS}) using iceberg partitioned by (p)
          tblproperties('format-version'='{{v}}', 'write.delete.mode'='merge-on-read')""")
    q(f"""insert into {{t}} select id%2=0, cast(id%50 as int)-25, (id%100)*100000000000-7, cast(id%7 as float)/3, cast(id%11 as double)-5.5,
          date_add(date'1969-12-20', cast(id%30 as int)), timestamp_micros(id*1234567), cast(timestamp_micros(id*77) as timestamp_ntz),
          case when id%17=0 then '' when id%19=0 then null else concat('a string, ', id%300) end, cast(concat('bin', id) as binary),
          cast(id%40 as decimal(10,2))-20.55, cast(id*123456789 as decimal(30,5))-1000000,
          case when id%5=0 then null else concat('p', id%3) end from range(2000)""")
    q(f"delete from {{t}} where i = 3")
    q(f"call j.system.compute_table_stats(table => 'db.t{{v}}')")
    q(f"call j.system.compute_partition_stats(table => 'db.t{{v}}')")
    q(f"alter table {{t}} add partition field bucket(4, l)")
    q(f"""insert into {{t}} select true, cast(id+1000 as int), id, 0f, 0d, date'2020-01-01', timestamp'2020-01-01 00:00:00',
          timestamp_ntz'2020-01-01 00:00:00', cast(id as string), null, 1.5, 2.5, 'p1' from range(20)""")
    q(f"delete from {{t}} where i = 1005")
    q(f"delete from {{t}} where p = 'p2'")
    q(f"call j.system.compute_partition_stats(table => 'db.t{{v}}')")
q("create table j.db.big (l bigint, s string) using iceberg")
q("insert into j.db.big select /*+ REPARTITION(1) */ id, concat('s', id) from range(50000)")
q("call j.system.compute_table_stats(table => 'db.big')")
'''


def newest(folder: Path) -> str:
    return str(max(folder.glob("metadata/*.metadata.json"), key=lambda path: path.stat().st_mtime))


@pytest.fixture(scope="module")
def warehouse(java_script: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("java")
    java_script(MAKE, str(folder))
    return folder


@pytest.fixture
def writable(warehouse: Path, tmp_path: Path) -> Callable[[str], Table]:
    """Return a table that Java wrote, registered in a catalog of Icefloe."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    return lambda name: catalog.register_table(f"db.{name}", newest(warehouse / "db" / name))


def sketches(table: Table | StaticTable) -> dict[tuple[int, ...], tuple[dict[str, str], bytes]]:
    (file,) = table.metadata.statistics
    source = in_memory_puffin(table.io.read(file.statistics_path), file.statistics_path)
    return {blob.fields: (dict(blob.properties), read_blob(source, blob)) for blob in read_file_metadata(source).blobs}


@pytest.mark.parametrize(("name", "columns"), [("t2", 13), ("t3", 13), ("big", 2)])
def test_sketches_are_java_s_byte_for_byte(writable: Callable[[str], Table], name: str, columns: int) -> None:
    table = writable(name)
    java = sketches(table)
    (file,) = table.metadata.statistics
    assert len(java) == columns
    assert table.statistics(file.snapshot_id).distinct_values.keys() == set(table.schema().names)  # type: ignore[union-attr]
    table.compute_statistics(snapshot_id=file.snapshot_id)
    (own,) = table.metadata.statistics
    assert own.statistics_path != file.statistics_path
    assert sketches(table) == java


def rows_of(statistics: pa.Table) -> list[dict[str, Any]]:
    # Java leaves out the total, which Icefloe writes if all deletes are vectors.
    return [{name: value for name, value in row.items() if name != "total_record_count"} for row in statistics.to_pylist()]


@pytest.mark.parametrize("name", ["t2", "t3"])
def test_partitions_count_as_java_s_do(writable: Callable[[str], Table], name: str) -> None:
    table = writable(name)
    files = {file.snapshot_id: file for file in table.metadata.partition_statistics}
    assert len(files) == 2
    for snapshot_id, file in files.items():
        stored = pq.read_table(file.statistics_path)
        java = table.partition_statistics(snapshot_id)
        assert [row["partition"] | {"l_bucket_4": None} | row["partition"] for row in stored.to_pylist()] == [
            row["partition"] for row in java.to_pylist()
        ]
    newer = max(files, key=lambda number: table.snapshot_by_id(number).timestamp_ms)  # type: ignore[union-attr]
    java = table.partition_statistics(newer)
    with table.update_statistics() as update:
        update.remove_partition_statistics(newer)
    # On top of Java's file for the older snapshot.
    assert rows_of(table.compute_partition_statistics(newer)) == rows_of(java)
    with table.update_statistics() as update:
        for number in files:
            update.remove_partition_statistics(number)
    # And from every manifest, where partitions that had lost their files before may be missing.
    whole = {str(row["partition"]): row for row in rows_of(table.compute_partition_statistics(newer))}
    assert all(whole.get(str(row["partition"]), row) == row for row in rows_of(java))
    assert {key for key, row in whole.items() if row["data_file_count"]} == {
        str(row["partition"]) for row in rows_of(java) if row["data_file_count"]
    }


BUILD_ON = """
import json
load = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
for name in ("t2", "t3"):
    spark.sql(f"insert into j.db.{name} (id, kind) values (100, 'a'), (101, 'z')")
    spark.sql(f"call j.system.compute_partition_stats(table => 'db.{name}')")
    table = load(spark._jsparkSession, f"j.db.{name}")
    file = table.statisticsFiles().get(0)
    puffin = spark._jvm.org.apache.iceberg.puffin.Puffin.read(table.io().newInputFile(file.path())).build()
    found = {}
    read = puffin.readAll(puffin.fileMetadata().blobs()).iterator()
    while read.hasNext():
        pair = read.next()
        found[str(pair.first().inputFields().get(0))] = [pair.first().properties().get("ndv"), pair.second().remaining()]
    print(json.dumps({"name": name, "blobs": found, "footer": file.fileFooterSizeInBytes(), "size": file.fileSizeInBytes()}))
"""


def written_here(catalog: SqlCatalog, folder: Path, version: int) -> tuple[Table, list[dict[str, Any]]]:
    """Return a table with both kinds of statistics, and its partition statistics; also a table of Java's Hadoop catalog over the folder."""
    table = catalog.create_table(
        f"db.t{version}",
        pa.schema([("id", pa.int64()), ("kind", pa.string())]),
        partition_spec=["kind"],
        location=str(folder / "db" / f"t{version}"),
        properties={"format-version": str(version), "write.delete.mode": "merge-on-read"},
    )
    table.append(pa.table({"id": pa.array(range(30), pa.int64()), "kind": ["a", "b", None] * 10}))
    table.delete("id = 3")
    table.append(pa.table({"id": pa.array([200], pa.int64()), "kind": ["c"]}))
    table.delete("kind = 'c'")
    table.compute_statistics()
    rows = rows_of(table.compute_partition_statistics())
    # Such a catalog finds a table's newest metadata by a number in the name.
    metadata = folder / "db" / f"t{version}" / "metadata"
    shutil.copy(table.metadata_location, metadata / "v1.metadata.json")
    (metadata / "version-hint.text").write_text("1")
    return table, rows


def test_java_builds_on_the_files_written_here(java_script: Callable[..., str], tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    tables = {f"t{version}": written_here(catalog, tmp_path, version) for version in (2, 3)}
    printed = {found["name"]: found for found in map(json.loads, java_script(BUILD_ON, str(tmp_path)).splitlines())}
    for name, (table, own) in tables.items():
        (file,) = table.metadata.statistics
        found = printed[name]
        assert found["blobs"] == {"1": ["29", 16 + 8 * 29], "2": ["2", 16 + 8 * 2]}
        assert (found["size"], found["footer"]) == (file.file_size_in_bytes, file.file_footer_size_in_bytes)
        grown = StaticTable.from_metadata(newest(tmp_path / "db" / name))
        assert len(grown.metadata.partition_statistics) == 2
        before = {row["partition"]["kind"]: row for row in own}
        after = {row["partition"]["kind"]: row for row in rows_of(grown.partition_statistics())}
        # The manifests of the next snapshot no longer have "c": only the file that Icefloe wrote can give it to Java.
        assert before["c"]["data_file_count"] == 0
        assert after.keys() == {None, "a", "b", "c", "z"}
        assert after["b"] == before["b"]
        assert after["a"]["data_record_count"] == before["a"]["data_record_count"] + 1
        assert after["a"]["position_delete_record_count"] == 1
