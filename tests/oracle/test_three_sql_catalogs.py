"""Java's JdbcCatalog, PyIceberg's and Icefloe's SqlCatalog on one SQLite file, in turns: each makes, changes and drops tables that the others read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.oracle.java_jdbc import java_jdbc

from icefloe import SqlCatalog
from icefloe.errors import NamespaceNotEmptyError, NoSuchNamespaceError, NoSuchTableError
from icefloe.spec.types import StringType

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

JAVA = """
results["tables"] = sorted(row[1] for row in rows("show tables in lake.db"))
results["namespaces"] = sorted(row[0] for row in rows("show namespaces in lake"))
results["rows"] = rows("select * from lake.db.ours order by n")
results["properties"] = dict(jdbc.loadNamespaceMetadata(parse("db.x").namespace()))
spark.sql("insert into lake.db.ours values (2, 'java')")
spark.sql("alter table lake.db.ours add column by_java string")
spark.sql("alter table lake.db.ours rename column kind to sort")
spark.sql("insert into lake.db.ours values (3, 'java', 'new')")
spark.sql("delete from lake.db.ours where n = 0")
spark.sql("alter table lake.db.ours set tblproperties ('java' = 'was here')")
jdbc.renameTable(parse("db.for_java"), parse("db.from_java"))
results["dropped"] = jdbc.dropTable(parse("db.not_for_java"), False)
spark.sql("create namespace lake.jdb with properties ('maker' = 'java')")
spark.sql("alter namespace lake.db set properties ('java' = 'yes', 'team' = 'all')")
spark.sql("create table lake.jdb.theirs (n bigint, kind string) using iceberg partitioned by (kind)")
spark.sql("insert into lake.jdb.theirs values (10, 'a'), (11, 'b')")
for name in ("one", "two", "three", "four"):
    spark.sql(f"create table lake.jdb.{name} using iceberg as select '{name}' as name")
"""

PYICEBERG = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType
catalog = SqlCatalog("lake", uri=f"sqlite:///{sys.argv[1]}/catalog.db", warehouse=f"file://{sys.argv[1]}/warehouse")
def rows(name, key="n"):
    return catalog.load_table(name).scan().to_arrow().sort_by(key).to_pylist()
results = {
    "namespaces": sorted(catalog.list_namespaces()), "properties": catalog.load_namespace_properties("db"),
    "java properties": catalog.load_namespace_properties("jdb").get("maker"),
    "tables": sorted(map(list, catalog.list_tables("db"))), "ours": rows("db.ours"), "theirs": rows("jdb.theirs"),
}
table = catalog.load_table("db.ours")
table.append(pa.table({"n": pa.array([4], pa.int64()), "sort": ["pyiceberg"], "by_java": ["read"]}))
with table.update_schema() as update:
    update.add_column("by_pyiceberg", StringType())
table.delete("n = 1")
table = catalog.load_table("jdb.theirs")
table.append(pa.table({"n": pa.array([12], pa.int64()), "kind": ["a"]}))
with table.update_spec() as update:
    update.add_identity("n")
table.append(pa.table({"n": pa.array([13], pa.int64()), "kind": ["c"]}))
catalog.rename_table("db.for_pyiceberg", "jdb.from_pyiceberg")
catalog.rename_table("jdb.one", "jdb.uno")
catalog.drop_table("db.not_for_pyiceberg")
catalog.drop_table("jdb.two")
catalog.create_namespace("pdb", {"maker": "pyiceberg"})
catalog.update_namespace_properties("db", removals={"java"}, updates={"pyiceberg": "yes"})
table = catalog.create_table("pdb.theirs", pa.schema([("n", pa.int64()), ("kind", pa.string())]))
table.append(pa.table({"n": pa.array([20, 21], pa.int64()), "kind": ["a", "b"]}))
for name in ("one", "two"):
    catalog.create_table("pdb." + name, pa.schema([("n", pa.int64())]))
print(json.dumps(results))
"""

JAVA_AT_THE_END = """
results["namespaces"] = sorted(row[0] for row in rows("show namespaces in lake"))
results["tables"] = sorted(f"{space}.{row[1]}" for space in ("db", "jdb", "pdb") for row in rows(f"show tables in lake.{space}"))
results["properties"] = dict(jdbc.loadNamespaceMetadata(parse("db.x").namespace()))
results["ours"] = rows("select n, sort, by_java, by_pyiceberg, by_us from lake.db.ours order by n")
results["java"] = rows("select n, kind from lake.jdb.theirs order by n")
results["pyiceberg"] = rows("select n, kind from lake.pdb.theirs order by n")
"""

PYICEBERG_AT_THE_END = (
    PYICEBERG[: PYICEBERG.index("results = {")]
    + """
results = {
    "namespaces": sorted(name[0] for name in catalog.list_namespaces()), "properties": catalog.load_namespace_properties("db"),
    "tables": sorted(".".join(name) for space in ("db", "jdb", "pdb") for name in catalog.list_tables(space)),
}
for what, name in {"ours": "db.ours", "java": "jdb.theirs", "pyiceberg": "pdb.theirs"}.items():
    results[what] = [list(row.values()) for row in rows(name)]
print(json.dumps(results))
"""
)


def opened(folder: Path) -> SqlCatalog:
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")


def two(number: int, kind: str) -> pa.Table:
    return pa.table({"n": pa.array([number], pa.int64()), "kind": [kind]})


def rows(catalog: SqlCatalog, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = catalog.load_table(name).scan().to_arrow().sort_by("n").to_pylist()
    return found


def explicit_properties(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties without `exists`, which PyIceberg shows, and without the location that Java derives."""
    return {key: value for key, value in properties.items() if key not in {"exists", "location"}}


def test_three_implementations_share_a_catalog_in_turns(tmp_path: Path, pyiceberg: Callable[..., str]) -> None:
    catalog = opened(tmp_path)
    begin(catalog)
    told_by_java = java_jdbc(JAVA, tmp_path)
    assert told_by_java["tables"] == ["for_java", "for_pyiceberg", "not_for_java", "not_for_pyiceberg", "ours"]
    assert (told_by_java["namespaces"], told_by_java["dropped"]) == (["db"], True)
    assert told_by_java["rows"] == [[0, "ours"], [1, "ours"]]
    assert explicit_properties(told_by_java["properties"]) == {"team": "us"}

    results = json.loads(pyiceberg(PYICEBERG, str(tmp_path)).splitlines()[-1])
    check_what_pyiceberg_saw(results)

    go_on_with_what_both_left(catalog)
    expected = {
        "namespaces": ["db", "jdb", "pdb"],
        "tables": ["db.from_java", "db.ours", "jdb.cuatro", "jdb.from_pyiceberg", "jdb.theirs", "jdb.uno", "pdb.theirs", "pdb.uno"],
        "ours": [
            [2, "java", None, None, None],
            [3, "java", "new", None, None],
            [4, "pyiceberg", "read", None, None],
            [5, "ours", "a", "b", "c"],
        ],
        "java": [[10, "a"], [11, "b"], [12, "a"], [13, "c"], [14, "d"]],
        "pyiceberg": [[20, "a"], [22, "c"]],
    }
    properties = {"team": "all", "pyiceberg": "yes", "ours": "yes"}
    java = java_jdbc(JAVA_AT_THE_END, tmp_path)
    assert explicit_properties(java.pop("properties")) == properties
    assert java == expected
    python = json.loads(pyiceberg(PYICEBERG_AT_THE_END, str(tmp_path)).splitlines()[-1])
    assert explicit_properties(python.pop("properties")) == properties
    assert python == expected


def begin(catalog: SqlCatalog) -> None:
    catalog.create_namespace("db", {"team": "us"})
    for name in ("ours", "for_java", "not_for_java", "for_pyiceberg", "not_for_pyiceberg"):
        catalog.create_table(f"db.{name}", two(0, "").schema)
    table = catalog.load_table("db.ours")
    table.append(two(0, "ours"))
    table.append(two(1, "ours"))


def check_what_pyiceberg_saw(results: dict[str, Any]) -> None:
    assert results["namespaces"] == [["db"], ["jdb"]]
    assert explicit_properties(results["properties"]) == {"team": "all", "java": "yes"}
    assert results["java properties"] == "java"
    assert results["tables"] == [["db", name] for name in ("for_pyiceberg", "from_java", "not_for_pyiceberg", "ours")]
    assert results["ours"] == [
        {"n": 1, "sort": "ours", "by_java": None},
        {"n": 2, "sort": "java", "by_java": None},
        {"n": 3, "sort": "java", "by_java": "new"},
    ]
    assert results["theirs"] == [{"n": 10, "kind": "a"}, {"n": 11, "kind": "b"}]


def go_on_with_what_both_left(catalog: SqlCatalog) -> None:
    assert catalog.list_namespaces() == [("db",), ("jdb",), ("pdb",)]
    assert catalog.load_namespace_properties("db") == {"team": "all", "pyiceberg": "yes"}
    assert catalog.load_namespace_properties("pdb")["maker"] == "pyiceberg"
    assert catalog.list_tables("jdb") == [("jdb", name) for name in ("four", "from_pyiceberg", "theirs", "three", "uno")]
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.not_for_java")
    assert [list(row.values()) for row in rows(catalog, "db.ours")] == [
        [2, "java", None, None],
        [3, "java", "new", None],
        [4, "pyiceberg", "read", None],
    ]
    assert [row["n"] for row in rows(catalog, "jdb.theirs")] == [10, 11, 12, 13]
    assert [row["n"] for row in rows(catalog, "pdb.theirs")] == [20, 21]
    assert catalog.load_table("db.ours").properties["java"] == "was here"

    ours = catalog.load_table("db.ours")
    with ours.update_schema() as update:
        update.add_column("by_us", StringType())
    ours.append(pa.table({"n": pa.array([5], pa.int64()), "sort": ["ours"], "by_java": ["a"], "by_pyiceberg": ["b"], "by_us": ["c"]}))
    catalog.load_table("jdb.theirs").append(two(14, "d"))
    theirs = catalog.load_table("pdb.theirs")
    theirs.delete("n = 21")
    theirs.append(two(22, "c"))
    catalog.rename_table("jdb.four", "jdb.cuatro")
    catalog.rename_table("pdb.one", "pdb.uno")
    catalog.drop_table("jdb.three")
    catalog.drop_table("pdb.two")
    catalog.update_namespace_properties("db", updates={"ours": "yes"})
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("jdb")
    catalog.create_namespace("gone")
    catalog.drop_namespace("gone")
    with pytest.raises(NoSuchNamespaceError):
        catalog.load_namespace_properties("gone")
