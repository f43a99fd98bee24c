"""File-system tables with Java's HadoopCatalog, in turns: each makes, fills and evolves tables in one folder, and reads the tables of the other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import NoSuchTableError
from icefloe.io.local_folders import OpenLocalFolder
from icefloe.spec.types import StringType

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

READ = """
import json
def rows(name):
    return [list(row) for row in spark.sql(f"select * from j.db.{name} order by n").collect()]
results = {"tables": sorted(row.tableName for row in spark.sql("show tables in j.db").collect())}
"""
JAVA = (
    READ
    + """
results["ours"] = rows("ours")
spark.sql("insert into j.db.ours values (2)")
spark.sql("alter table j.db.ours add column by_java string")
spark.sql("create table j.db.theirs (n bigint) using iceberg")
spark.sql("insert into j.db.theirs values (10)")
spark.sql("create table j.db.zipped (n bigint) using iceberg tblproperties ('write.metadata.compression-codec' = 'gzip')")
spark.sql("insert into j.db.zipped values (20)")
spark.sql("drop table j.db.for_java")
print(json.dumps(results))
"""
)
JAVA_AGAIN = (
    READ
    + """
results |= {name: rows(name) for name in ("ours", "theirs", "zipped")}
spark.sql("insert into j.db.ours values (4, 'a', 'b')")
spark.sql("insert into j.db.theirs values (12)")
print(json.dumps(results))
"""
)


def numbers(catalog: FileSystemCatalog, name: str) -> list[int]:
    found: list[int] = sorted(catalog.load_table(name).scan().to_arrow()["n"].to_pylist())
    return found


def row_of(number: int) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64())})


def hint(folder: Path, name: str) -> int:
    return int((folder / "db" / name / "metadata" / "version-hint.text").read_text())


def test_java_and_icefloe_share_a_folder_in_turns(tmp_path: Path, java_script: Callable[..., str]) -> None:
    def java(script: str) -> dict[str, Any]:
        results: dict[str, Any] = json.loads(java_script(script, str(tmp_path)).splitlines()[-1])
        return results

    catalog = FileSystemCatalog("lake", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    for name in ("db.ours", "db.for_java"):
        catalog.create_table(name, row_of(1).schema).append(row_of(1))
    assert java(JAVA) == {"tables": ["for_java", "ours"], "ours": [[1]]}

    assert catalog.list_tables("db") == [("db", "ours"), ("db", "theirs"), ("db", "zipped")]
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.for_java")
    assert (numbers(catalog, "db.ours"), numbers(catalog, "db.theirs"), numbers(catalog, "db.zipped")) == ([1, 2], [10], [20])
    assert catalog.load_table("db.zipped").metadata_location.endswith("v2.gz.metadata.json")
    ours = catalog.load_table("db.ours")
    with ours.update_schema() as update:
        update.add_column("by_us", StringType())
    ours.append(pa.table({"n": pa.array([3], pa.int64()), "by_java": ["java"], "by_us": ["us"]}))
    for name, number in (("db.theirs", 11), ("db.zipped", 21)):
        catalog.load_table(name).append(row_of(number))
    assert [hint(tmp_path, name) for name in ("ours", "theirs", "zipped")] == [6, 3, 3]

    assert java(JAVA_AGAIN) == {
        "tables": ["ours", "theirs", "zipped"],
        "ours": [[1, None, None], [2, None, None], [3, "java", "us"]],
        "theirs": [[10], [11]],
        "zipped": [[20], [21]],
    }
    assert (numbers(catalog, "db.ours"), numbers(catalog, "db.theirs")) == ([1, 2, 3, 4], [10, 11, 12])
    assert [hint(tmp_path, name) for name in ("ours", "theirs")] == [7, 4], "one version for each commit of either engine"
    catalog.drop_table("db.theirs")
    assert java(READ + "print(json.dumps(results))")["tables"] == ["ours", "zipped"]


def test_java_does_not_see_a_table_whose_drop_was_cut_short_and_can_use_its_name(
    tmp_path: Path, java_script: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FileSystemCatalog("lake", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    catalog.create_table("db.gone", row_of(1).schema).append(row_of(1))

    def cut_short(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(OpenLocalFolder, "remove", cut_short)
        with pytest.raises(KeyboardInterrupt):
            catalog.drop_table("db.gone")
    script = """
import json
before = [row.tableName for row in spark.sql("show tables in j.db").collect()]
spark.sql("create table j.db.gone (n bigint) using iceberg")
spark.sql("insert into j.db.gone values (7)")
print(json.dumps([before, [list(row) for row in spark.sql("select * from j.db.gone").collect()]]))
"""
    assert json.loads(java_script(script, str(tmp_path)).splitlines()[-1]) == [[], [[7]]]
    assert numbers(catalog, "db.gone") == [7]
    catalog.create_table("db.other", row_of(1).schema)
    catalog.drop_table("db.gone")
    assert sorted(path.name for path in (tmp_path / "db").iterdir()) == ["other"], "the remaining files of the older table are deleted too"
